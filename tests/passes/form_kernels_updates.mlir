// RUN: dmc-opt %s -p dm-form-kernels --split-input-file | %FileCheck %s

// The product of a gradient and the update of its matrix, one kernel, stand where the product does, and with them what
// the update alone needs: what is multiplied does not wait for the end of the step.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[Y:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[RATE:[^:]+]]: tensor<8x8xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]], %[[W]])
// CHECK-NEXT: %[[S:.+]] = "dm.kernel"(%[[RATE]])
// CHECK-NEXT: %[[NEW:.+]] = "dm.kernel"(%[[X]], %[[Y]], %[[S]], %[[W]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[A]])
// CHECK-NEXT: return %[[NEW]], %[[S]], %[[B]]
func.func @step(%w: tensor<8x8xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<8x8xf32> {dm.name = "x", dm.role = "batch"},
                %y: tensor<8x8xf32> {dm.name = "y", dm.role = "batch"},
                %rate: tensor<8x8xf32> {dm.name = "rate", dm.role = "batch"})
    -> (tensor<8x8xf32> {dm.name = "w"}, tensor<8x8xf32> {dm.name = "s"}, tensor<8x8xf32> {dm.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = math.exp %rate : tensor<8x8xf32>
  %d = arith.mulf %g, %s : tensor<8x8xf32>
  %new = arith.subf %w, %d : tensor<8x8xf32>
  return %new, %s, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Behind the last other reader of the matrix, so that the new one takes its place; not behind what comes after.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[Y:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[RATE:[^:]+]]: tensor<8x8xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]], %[[W]])
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[A]], %[[W]])
// CHECK-NEXT: %[[S:.+]] = "dm.kernel"(%[[RATE]])
// CHECK-NEXT: %[[NEW:.+]] = "dm.kernel"(%[[X]], %[[Y]], %[[S]], %[[W]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[C]])
// CHECK-NEXT: return %[[NEW]], %[[S]], %[[B]]
func.func @step(%w: tensor<8x8xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<8x8xf32> {dm.name = "x", dm.role = "batch"},
                %y: tensor<8x8xf32> {dm.name = "y", dm.role = "batch"},
                %rate: tensor<8x8xf32> {dm.name = "rate", dm.role = "batch"})
    -> (tensor<8x8xf32> {dm.name = "w"}, tensor<8x8xf32> {dm.name = "s"}, tensor<8x8xf32> {dm.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.matmul ins(%a, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.matmul ins(%c, %c : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = math.exp %rate : tensor<8x8xf32>
  %d = arith.mulf %g, %s : tensor<8x8xf32>
  %new = arith.subf %w, %d : tensor<8x8xf32>
  return %new, %s, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// The update needs a sum of the end, as the norm of all gradients: it waits, and what the sum needs is not made earlier.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[Y:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[RATE:[^:]+]]: tensor<8x8xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]], %[[W]])
// CHECK-NEXT: %[[C:.+]] = "dm.kernel"(%[[A]], %[[X]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[A]])
// CHECK-NEXT: %[[SUM:.+]] = "dm.kernel"(%[[B]])
// CHECK-NEXT: %[[NEW:.+]] = "dm.kernel"(%[[X]], %[[Y]], %[[SUM]], %[[W]])
// CHECK-NEXT: return %[[NEW]], %[[C]], %[[B]]
func.func @step(%w: tensor<8x8xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<8x8xf32> {dm.name = "x", dm.role = "batch"},
                %y: tensor<8x8xf32> {dm.name = "y", dm.role = "batch"},
                %rate: tensor<8x8xf32> {dm.name = "rate", dm.role = "batch"})
    -> (tensor<8x8xf32> {dm.name = "w"}, tensor<8x8xf32> {dm.name = "c"}, tensor<8x8xf32> {dm.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.matmul ins(%a, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %none = arith.constant dense<0.0> : tensor<8xf32>
  %sum = linalg.reduce ins(%b : tensor<8x8xf32>) outs(%none : tensor<8xf32>) dimensions = [1]
    (%in: f32, %out: f32) {
      %more = arith.addf %in, %out : f32
      linalg.yield %more : f32
    }
  %empty = tensor.empty() : tensor<8x8xf32>
  %s = linalg.broadcast ins(%sum : tensor<8xf32>) outs(%empty : tensor<8x8xf32>) dimensions = [1]
  %d = arith.mulf %g, %s : tensor<8x8xf32>
  %new = arith.subf %w, %d : tensor<8x8xf32>
  return %new, %c, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// In a stage of a pipeline, updates wait for the end: what another stage is sent comes first.
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[W:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[X:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[Y:[^:]+]]: tensor<8x8xf32> {{[^%]+}}, %[[RATE:[^:]+]]: tensor<8x8xf32>
// CHECK-NEXT: %[[A:.+]] = "dm.kernel"(%[[X]], %[[W]])
// CHECK-NEXT: %[[B:.+]] = "dm.kernel"(%[[A]])
// CHECK-NEXT: %[[S:.+]] = "dm.kernel"(%[[RATE]])
// CHECK-NEXT: %[[NEW:.+]] = "dm.kernel"(%[[X]], %[[Y]], %[[S]], %[[W]])
// CHECK-NEXT: return %[[NEW]], %[[S]], %[[B]]
module attributes {dm.stage = {axis = "pp", index = 0 : i64}} {
func.func @step(%w: tensor<8x8xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<8x8xf32> {dm.name = "x", dm.role = "batch"},
                %y: tensor<8x8xf32> {dm.name = "y", dm.role = "batch"},
                %rate: tensor<8x8xf32> {dm.name = "rate", dm.role = "batch"})
    -> (tensor<8x8xf32> {dm.name = "w"}, tensor<8x8xf32> {dm.name = "s"}, tensor<8x8xf32> {dm.name = "b"}) {
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %a = linalg.matmul ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = math.exp %rate : tensor<8x8xf32>
  %d = arith.mulf %g, %s : tensor<8x8xf32>
  %new = arith.subf %w, %d : tensor<8x8xf32>
  return %new, %s, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}
