// RUN: dmc-opt %s -p "dm-propagate-sharding{table=true}" 2>&1 >%t | %FileCheck %s

// What is split, at what cost and why; what asked in vain; not what every rank does as a whole anyway.
// CHECK: operation{{ +}}result{{ +}}placement{{ +}}bytes in{{ +}}why
// CHECK-NEXT: linalg.matmul{{ +}}tensor<8x6xf32>{{ +}}[dp, -]{{ +}}96{{ +}}dp splits operand 0
// CHECK-NEXT: math.exp{{ +}}tensor<8x6xf32>{{ +}}[dp, -]{{ +}}0{{ +}}dp splits operand 0
// CHECK-NEXT: tensor.extract_slice{{ +}}tensor<3x6xf32>{{ +}}[-, -]{{ +}}192{{ +}}dp splits operand 0, but a slice of the dimension is taken
// CHECK-NOT: tanh
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
func.func @step(%x: tensor<8x4xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>},
                %w: tensor<4x6xf32> {dm.sharding = #dm.sharding<@mesh, [["dp"], []], {}>}, %z: tensor<4xf32>)
    -> (tensor<3x6xf32>, tensor<4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<8x6xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x6xf32>) outs(%zero : tensor<8x6xf32>) -> tensor<8x6xf32>
  %e = math.exp %y : tensor<8x6xf32>
  %s = tensor.extract_slice %e[0, 0] [3, 6] [1, 1] : tensor<8x6xf32> to tensor<3x6xf32>
  %t = math.tanh %z : tensor<4xf32>
  return %s, %t : tensor<3x6xf32>, tensor<4xf32>
}
