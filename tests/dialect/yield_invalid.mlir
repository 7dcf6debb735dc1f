// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @in_a_function(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.yield: is in func.func; it belongs directly in dm.start}}
  "dm.yield"(%x) : (tensor<8xf32>) -> ()
}

// -----

func.func @handle(%x: tensor<8xf32>) {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    %g = builtin.unrealized_conversion_cast to !dm.handle<none>
    // expected-error @+1 {{dm.yield: operand 'values' is !dm.handle<none>; it must be statically shaped tensor}}
    "dm.yield"(%g) : (!dm.handle<none>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  return
}

// -----

func.func @not_last(%x: tensor<8xf32>) {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    // expected-note @+2 {{see current operation}}
    // expected-error @+1 {{must be the last operation in the parent block}}
    "dm.yield"() : () -> ()
    "dm.yield"() : () -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<none>, !dm.token)
  return
}

// -----

func.func @result(%x: tensor<8xf32>) {
  %h, %t = "dm.start"(%x) ({
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{dm.yield: takes 0 results, got 1}}
    %y = "dm.yield"() : () -> i32
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8xf32>) -> (!dm.handle<none>, !dm.token)
  return
}
