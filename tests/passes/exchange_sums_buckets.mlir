// RUN: dmc-opt %s -p 'dm-exchange-sums{machine=h200x8 bucket_bytes=8388608}' --split-input-file | %FileCheck %s
// RUN: dmc-opt %s -p 'dm-exchange-sums{machine=h200x8 bucket_bytes=4194304}' --split-input-file | %FileCheck %s --check-prefix=APART

"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()

// Sums of up to bucket_bytes together share their movements, where the last of them is ready; what reads one of them
// before that moves behind it, with what reads that, and nothing else does. The third is too much.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: (%[[X:[^:]+]]: tensor<512x2048xf32>, %[[Y:[^:]+]]: tensor<1024x1024xf32>)
// CHECK-NEXT: %[[G:.+]] = arith.mulf %[[Y]], %[[Y]]
// CHECK-NEXT: %[[P:.+]] = "dm.pack"(%[[X]], %[[G]]) {offsets = array<i64: 0, 1048576>} : {{.*}} -> tensor<2097152xf32>
// CHECK-NEXT: %[[M:.+]] = "dm.all_to_all"(%[[P]]) {{.*}}dm.tensor = "gradient of a; gradient of b"
// CHECK: %[[S:.+]] = linalg.generic
// CHECK: %[[A:.+]] = "dm.all_gather"(%[[S]]) {{.*}}dm.tensor = "gradient of a; gradient of b"
// CHECK-NEXT: %[[U:.+]]:2 = "dm.unpack"(%[[A]]) {offsets = array<i64: 0, 1048576>}
// CHECK-NEXT: %[[N:.+]] = arith.negf %[[U]]#0
// CHECK-NEXT: %[[R:.+]] = arith.addf %[[N]], %[[X]]
// CHECK-NEXT: dm.all_to_all
// CHECK: %[[C:.+]] = "dm.all_gather"
// CHECK-NEXT: return %[[R]], %[[U]]#1, %[[C]]
// APART-LABEL: func.func @shared
// APART-NOT: dm.pack
// APART-COUNT-3: dm.all_to_all
func.func @shared(%x: tensor<512x2048xf32>, %y: tensor<1024x1024xf32>)
    -> (tensor<512x2048xf32>, tensor<1024x1024xf32>, tensor<512x2048xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of a", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %n = arith.negf %a : tensor<512x2048xf32>
  %g = arith.mulf %y, %y : tensor<1024x1024xf32>
  %r = arith.addf %n, %x : tensor<512x2048xf32>
  %b = "dm.all_reduce"(%g) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of b", group = #dm.group<@mesh, ["dp"]>} : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %c = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of c", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x2048xf32>) -> tensor<512x2048xf32>
  return %r, %b, %c : tensor<512x2048xf32>, tensor<1024x1024xf32>, tensor<512x2048xf32>
}

// A sum of what another gives, directly, through others, or inside a region, is another movement.
// CHECK-LABEL: func.func @dependent
// CHECK-NOT: dm.pack
// CHECK-COUNT-3: dm.all_to_all
func.func @dependent(%x: tensor<512x1024xf32>, %n: index) -> tensor<512x1024xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p1", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %l = scf.for %i = %zero to %n step %one iter_args(%t = %x) -> tensor<512x1024xf32> {
    %s = arith.addf %t, %a : tensor<512x1024xf32>
    scf.yield %s : tensor<512x1024xf32>
  }
  %m = arith.negf %l : tensor<512x1024xf32>
  %b = "dm.all_reduce"(%m) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p2", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %c = "dm.all_reduce"(%b) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p3", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %c : tensor<512x1024xf32>
}

// Other types, sums in other types, and what is not divided into aligned pieces (513 rows) have movements of their own.
// CHECK-LABEL: func.func @unlike
// CHECK-NOT: dm.pack
// CHECK-COUNT-4: dm.all_to_all
func.func @unlike(%x: tensor<512x1024xf32>, %y: tensor<512x1024xbf16>, %z: tensor<513x1036xf32>)
    -> (tensor<512x1024xf32>, tensor<512x1024xbf16>, tensor<512x1024xbf16>, tensor<513x1036xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p4", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %d = "dm.all_reduce"(%z) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p7", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<513x1036xf32>) -> tensor<513x1036xf32>
  %b = "dm.all_reduce"(%y) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p5", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xbf16>) -> tensor<512x1024xbf16>
  %c = "dm.all_reduce"(%y) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p6", accumulate = bf16, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xbf16>) -> tensor<512x1024xbf16>
  return %a, %b, %c, %d : tensor<512x1024xf32>, tensor<512x1024xbf16>, tensor<512x1024xbf16>, tensor<513x1036xf32>
}

// What has no name, and what has the name of another, has movements of its own: activations are read soon.
// CHECK-LABEL: func.func @names
// CHECK-NOT: dm.pack
// CHECK-COUNT-4: dm.all_to_all
func.func @names(%x: tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %b = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of a", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %c = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of a", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %d = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %a, %b, %c, %d : tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>
}

// In the body of a loop they share movements, too, but not with those around it.
// CHECK-LABEL: func.func @loop
// CHECK: dm.all_to_all
// CHECK: scf.for
// CHECK-NEXT: "dm.pack"(%{{.+}}, %{{.+}})
// CHECK-NEXT: dm.all_to_all
// CHECK-NOT: dm.all_to_all
// CHECK: dm.unpack
// CHECK: scf.yield
func.func @loop(%x: tensor<512x1024xf32>, %n: index) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of a", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %l:2 = scf.for %i = %zero to %n step %one iter_args(%s = %a, %t = %x) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
    %b = "dm.all_reduce"(%s) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of b", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
    %c = "dm.all_reduce"(%t) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of c", group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
    scf.yield %b, %c : tensor<512x1024xf32>, tensor<512x1024xf32>
  }
  return %l#0, %l#1 : tensor<512x1024xf32>, tensor<512x1024xf32>
}

// -----

// Those of other ranks have movements of their own.
"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 4>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
// CHECK-LABEL: func.func @groups
// CHECK-NOT: dm.pack
// CHECK-COUNT-2: dm.all_to_all
func.func @groups(%x: tensor<512x1024xf32>, %y: tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of a", group = #dm.group<@mesh, ["tp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %b = "dm.all_reduce"(%y) {reduction = #dm.reduction<"sum">, accumulate = f32, dm.tensor = "gradient of b", group = #dm.group<@mesh, ["dp", "tp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %a, %b : tensor<512x1024xf32>, tensor<512x1024xf32>
}

// -----

// Between two, dm-bucket joins what they give each other.
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
// CHECK-LABEL: func.func @of_two
// CHECK-NOT: dm.pack
// CHECK-COUNT-2: dm.permute
func.func @of_two(%x: tensor<512x1024xf32>, %y: tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<512x1024xf32>) {
  %a = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p8", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %b = "dm.all_reduce"(%y) {reduction = #dm.reduction<"sum">, dm.tensor = "gradient of p9", accumulate = f32, group = #dm.group<@mesh, ["dp"]>} : (tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %a, %b : tensor<512x1024xf32>, tensor<512x1024xf32>
}
