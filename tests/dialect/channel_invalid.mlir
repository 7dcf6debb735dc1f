// RUN: dmc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{dm.channel: has no group; give one along axes, or list the ranks of groups}}
"dm.channel"() {sym_name = "gradients"} : () -> ()

// -----

// expected-error @+1 {{dm.channel: has no group; give one along axes, or list the ranks of groups}}
"dm.channel"() {sym_name = "gradients", groups = []} : () -> ()

// -----

// expected-error @+1 {{dm.channel: has both a group along axes and listed groups; omit one}}
"dm.channel"() {sym_name = "gradients", group = #dm.group<@mesh, ["dp"]>, groups = [array<i64: 0, 1>]} : () -> ()

// -----

// expected-error @+1 {{dm.channel: attribute 'groups' is [0]; it must be array of i64 dense arrays}}
"dm.channel"() {sym_name = "gradients", groups = [0]} : () -> ()

// -----

// expected-error @+1 {{dm.channel: attribute 'group' is @mesh; it must be #dm.group}}
"dm.channel"() {sym_name = "gradients", group = @mesh} : () -> ()

// -----

// expected-error @+1 {{dm.channel: #dm.group<@mesh, []> has no axis; a group needs at least one}}
"dm.channel"() {sym_name = "gradients", group = #dm.group<@mesh, []>} : () -> ()

// -----

// expected-error @+1 {{dm.channel: attribute 'sym_name' is missing; it must be string attribute}}
"dm.channel"() {group = #dm.group<@mesh, ["dp"]>} : () -> ()

// -----

func.func @inside() {
  // expected-error @+1 {{dm.channel: is in func.func; it belongs directly in builtin.module}}
  "dm.channel"() {sym_name = "gradients", group = #dm.group<@mesh, ["dp"]>} : () -> ()
  return
}

// -----

"dm.channel"() {sym_name = "twice", group = #dm.group<@mesh, ["dp"]>} : () -> ()
// expected-note @-1 {{see existing symbol definition here}}
// expected-note @+2 {{see current operation}}
// expected-error @+1 {{redefinition of symbol named 'twice'}}
"dm.channel"() {sym_name = "twice", group = #dm.group<@mesh, ["dp"]>} : () -> ()
