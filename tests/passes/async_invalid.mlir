// RUN: dmc-opt --allow-undefined-symbols %s -p dm-async --split-input-file --verify-diagnostics

func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  %first = arith.constant 0 : index
  %last = arith.constant 4 : index
  %by = arith.constant 1 : index
  %y = scf.for %i = %first to %last step %by iter_args(%a = %x) -> (tensor<8xf32>) {
    // expected-error @+1 {{dm.broadcast: is inside scf.for; movements become asynchronous only in @step's own block}}
    %r = "dm.broadcast"(%a) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %r : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

func.func private @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{dm.broadcast: is inside func.func; movements become asynchronous only in @step's own block}}
  %r = "dm.broadcast"(%x) {root = 0 : i64, group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
