// The dialect itself, the base classes of its records and the constraints that its ops share.

#ifndef DM_BASE
#define DM_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dm_Dialect : Dialect {
  let name = "dm";
  let cppNamespace = "::dm";
  let summary = "Every movement of data in a training step, as an operation";
  let description = [{
    `dm` makes the movements of a distributed training step explicit: each collective, each message between two ranks,
    each copy between memory spaces. A movement is first a value-level op (tensor in, tensor out) whose shape law is
    verified; it then becomes asynchronous (`dm.start` and `dm.wait`) on a queue. Computations become `dm.kernel`.

    Ops print and parse in MLIR's generic syntax. A rule that one op can decide alone is checked whenever the op is
    verified; a rule that needs another op found by name (a mesh, a channel, a decomposition, the other end of a
    message) is checked for a whole module at a time.

    Where an op takes or gives a list of values of any types, the list has at most 256 runs of equal type.
  }];
}

class Dm_Op<string mnemonic, list<Trait> traits = []> : Op<Dm_Dialect, mnemonic, traits> {
  // Set where the builder is written by hand, because it derives result types or fills a region.
  bit handBuilt = 0;
}

class Dm_Type<string name, string typeMnemonic, list<Trait> traits = []> : TypeDef<Dm_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

class Dm_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Dm_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

// A parameter of a type or attribute. `constraint` is what a value of it must satisfy.
class Dm_Parameter<Constraint what, string cppType, string desc, string example>
    : AttrOrTypeParameter<cppType, desc> {
  Constraint constraint = what;
  let syntax = example;
}

// One word out of a closed list: printed as `#dm.<mnemonic><"word">`.
class Dm_WordAttr<string name, string attrMnemonic, list<string> allowed> : Dm_Attr<name, attrMnemonic> {
  list<string> words = allowed;
  let parameters = (ins Dm_Parameter<StrAttr, "::mlir::StringAttr",
                                     "one of " # !interleave(allowed, ", "), "\"" # !head(allowed) # "\"">:$word);
  let assemblyFormat = "`<` $word `>`";
}

// What a computation takes and gives: a tensor whose shape is known, or a scalar.
def Dm_Value : AnyTypeOf<[AnyStaticShapeTensor, AnyFloat, AnySignlessInteger, Index]>;

// The flat buffer of a bucket.
def Dm_FlatTensor : ConfinedType<AnyStaticShapeTensor, [HasAnyRankOfPred<[1]>], "statically shaped tensor of rank 1">;

def Dm_NonNegative : ConfinedAttr<I64Attr, [IntNonNegative]>;

#endif // DM_BASE
