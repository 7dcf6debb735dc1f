// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @other_type(%h: !dm.handle<tensor<8xf32>>) {
  // expected-error @+1 {{dm.wait: returns tensor<4xf32>, but !dm.handle<tensor<8xf32>> delivers tensor<8xf32>}}
  %y = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<4xf32>
  return
}

// -----

func.func @drops(%h: !dm.handle<tensor<8xf32>>) {
  // expected-error @+1 {{dm.wait: returns nothing, but !dm.handle<tensor<8xf32>> delivers tensor<8xf32>}}
  "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> ()
  return
}

// -----

func.func @invents(%h: !dm.handle<none>) {
  // expected-error @+1 {{dm.wait: returns tensor<8xf32>, but !dm.handle<none> delivers nothing}}
  %y = "dm.wait"(%h) : (!dm.handle<none>) -> tensor<8xf32>
  return
}

// -----

func.func @token(%t: !dm.token) {
  // expected-error @+1 {{dm.wait: operand 'handle' is !dm.token; it must be !dm.handle}}
  "dm.wait"(%t) : (!dm.token) -> ()
  return
}

// -----

func.func @two_handles(%h: !dm.handle<none>) {
  // expected-error @+1 {{dm.wait: takes 1 operand, got 2}}
  "dm.wait"(%h, %h) : (!dm.handle<none>, !dm.handle<none>) -> ()
  return
}

// -----

func.func @two_results(%h: !dm.handle<tensor<8xf32>>) {
  // expected-error @+1 {{dm.wait: takes at most 1 result, got 2}}
  %y:2 = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// expected-error @+1 {{'i32' does not satisfy the constraint}}
func.func @payload(%h: !dm.handle<i32>) {
  return
}
