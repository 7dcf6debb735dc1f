// RUN: dmc-opt %s --split-input-file --verify-diagnostics

func.func @in_a_function(%x: tensor<8xf32>) {
  // expected-error @+1 {{dm.yield: stands in func.func; it belongs directly in dm.kernel or dm.start}}
  "dm.yield"(%x) : (tensor<8xf32>) -> ()
}

// -----

func.func @handle(%h: !dm.handle<none>) {
  "dm.kernel"() ({
    %g = builtin.unrealized_conversion_cast to !dm.handle<none>
    // expected-error @+1 {{dm.yield: operand 'values' is !dm.handle<none>; it must be statically shaped tensor}}
    "dm.yield"(%g) : (!dm.handle<none>) -> ()
  }) : () -> ()
  return
}

// -----

func.func @not_last(%x: tensor<8xf32>) {
  "dm.kernel"() ({
    // expected-note @+2 {{see current operation}}
    // expected-error @+1 {{must be the last operation in the parent block}}
    "dm.yield"() : () -> ()
    "dm.yield"() : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @result() {
  "dm.kernel"() ({
    // expected-error @+1 {{dm.yield: takes 0 results, got 1}}
    %y = "dm.yield"() : () -> i32
  }) : () -> ()
  return
}
