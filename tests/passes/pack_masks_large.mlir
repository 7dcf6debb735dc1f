// RUN: dmc-opt %s -p 'dm-pack-masks' | %FileCheck %s

// A mask of 65,536 elements is worth packing, without being asked for.
// CHECK-LABEL: func.func @step
// CHECK: arith.shli
// CHECK: arith.ori
#same = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> ()>
func.func @step(%x: tensor<256x256xf32>, %seed: tensor<i64>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x256xf32>
  %m = tensor.empty() : tensor<256x256xi1>
  %mask = linalg.generic {indexing_maps = [#one, #same], iterator_types = ["parallel", "parallel"]}
      ins(%seed : tensor<i64>) outs(%m : tensor<256x256xi1>) {
    ^bb0(%s: i64, %o: i1):
      %j = linalg.index 1 : index
      %n = arith.index_cast %j : index to i64
      %b = arith.cmpi slt, %s, %n : i64
      linalg.yield %b : i1
  } -> tensor<256x256xi1> loc("h.0.drop#draw")
  %y = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mask : tensor<256x256xf32>, tensor<256x256xi1>) outs(%e : tensor<256x256xf32>) {
    ^bb0(%i: f32, %k: i1, %o: f32):
      %n = arith.select %k, %i, %zero : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0.drop#select")
  %dx = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%y, %mask : tensor<256x256xf32>, tensor<256x256xi1>) outs(%e : tensor<256x256xf32>) {
    ^bb0(%i: f32, %k: i1, %o: f32):
      %n = arith.select %k, %i, %zero : f32
      linalg.yield %n : f32
  } -> tensor<256x256xf32> loc("h.0.drop#select, backward")
  return %y, %dx : tensor<256x256xf32>, tensor<256x256xf32>
}
