"""The passes over the graph, in the order in which a model goes through them."""

from __future__ import annotations

from xdsl.passes import ModulePass

from weft.compiler.graph.crop_convolutions import CropConvolutionsPass
from weft.compiler.graph.decompose_transposed_conv import DecomposeTransposedConvPass
from weft.compiler.graph.flush_subnormals import FlushSubnormalsPass
from weft.compiler.graph.fuse.fuse import FusePass
from weft.compiler.graph.fuse.fuse_attention import FuseAttentionPass
from weft.compiler.graph.fuse.fuse_block_quantized import FuseBlockQuantizedPass
from weft.compiler.graph.fuse.fuse_matmuls import FuseMatmulsPass
from weft.compiler.graph.fuse.fuse_quantized import FuseQuantizedPass
from weft.compiler.graph.fuse.recognize_gelu import RecognizeGeluPass
from weft.compiler.graph.fuse.recognize_norms import RecognizeNormsPass
from weft.compiler.graph.narrow_scales import NarrowScalesPass
from weft.compiler.graph.partition.bucket_collectives import BucketCollectivesPass
from weft.compiler.graph.partition.cut_stages import CutStagesPass
from weft.compiler.graph.partition.decompose_collectives import DecomposeCollectivesPass
from weft.compiler.graph.partition.mark_stages import MarkStagesPass
from weft.compiler.graph.partition.partition import PartitionPass
from weft.compiler.graph.partition.propagate_shardings import PropagateShardingsPass
from weft.compiler.graph.partition.simplify_collectives import SimplifyCollectivesPass
from weft.compiler.graph.rematerialize import RematerializePass
from weft.compiler.graph.round_activations import RoundActivationsPass
from weft.compiler.graph.schedule_memory import ScheduleMemoryPass
from weft.compiler.graph.select_values import SelectValuesPass
from weft.compiler.graph.simplify.cse_dce import CseDcePass
from weft.compiler.graph.simplify.deduplicate_constants import DeduplicateConstantsPass
from weft.compiler.graph.simplify.fold_constants import FoldConstantsPass
from weft.compiler.graph.simplify.hoist_invariants import HoistInvariantsPass
from weft.compiler.graph.simplify.inline_calls import InlineCallsPass
from weft.compiler.graph.simplify.inline_regions import InlineRegionsPass
from weft.compiler.graph.simplify.rewrite import RewritePass
from weft.compiler.graph.simplify.sink_reindexing import SinkReindexingPass
from weft.compiler.graph.simplify.unify_sizes import UnifySizesPass
from weft.compiler.graph.split_systems import SplitSystemsPass
from weft.compiler.graph.split_taps import SplitTapsPass
from weft.compiler.graph.store_literals import StoreLiteralsPass
from weft.compiler.graph.unfold_convolutions import UnfoldConvolutionsPass
from weft.compiler.graph.unroll_elementwise import UnrollElementwisePass
from weft.compiler.graph.widen_halves import WidenHalvesPass
from weft.compiler.graph.winograd import WinogradPass

PARTITIONING_PASSES: tuple[type[ModulePass], ...] = (
    MarkStagesPass,  # by names of nodes, which go where operators are folded
    FoldConstantsPass,  # shapes are cut where they are numbers
    CseDcePass,  # ranks add up no gradient that nobody reads
    PropagateShardingsPass,
    PartitionPass,
    SimplifyCollectivesPass,  # while collectives are along any axis
    DecomposeCollectivesPass,
    BucketCollectivesPass,  # of what programs have in the end
)
"""Of a program for a mesh of ranks; what follows them sees the graph of one rank."""

SIMPLIFYING_PASSES: tuple[type[ModulePass], ...] = (
    InlineCallsPass,  # constants that calls hand over are constants of the function's operators
    UnifySizesPass,  # before operators are folded, with which what they assume of sizes goes
    PartitionPass,  # without a mesh: constraints of shardings are gone from here on
    FuseQuantizedPass,  # before constants are folded: weights would be floats; not with strict_fp
    FuseBlockQuantizedPass,  # for the same reason; not with strict_fp
    WidenHalvesPass,  # before patterns of operators are looked for; not with strict_fp
    FoldConstantsPass,  # sizes and constants: everything later sees simpler operators
    SplitSystemsPass,  # before slices of slices are rewritten
    RewritePass,  # on constants, so after folding
    NarrowScalesPass,  # of constants
    RoundActivationsPass,  # not with strict_fp, for which no target multiplies bf16
    FlushSubnormalsPass,  # of weights that others are folded into; not with strict_fp
    DecomposeTransposedConvPass,  # filters are constants by now
    CropConvolutionsPass,  # of its convolutions too; not with strict_fp
    HoistInvariantsPass,  # before equal operators of loops and their surroundings are merged
    DeduplicateConstantsPass,  # before equal operators are looked for: constants are among them
    CseDcePass,  # folding leaves equal and unused operators behind
    SinkReindexingPass,  # a movement between the operators of a pattern hides it
    RecognizeNormsPass,  # after equal means have become one
    RecognizeGeluPass,
)

GROUPING_PASSES: tuple[type[ModulePass], ...] = (
    InlineRegionsPass,  # after the last pass that merges equal operators
    SelectValuesPass,  # behind derivatives and probes, which follow the side that is taken
    RematerializePass,  # what is computed twice here stays so for the same reason
    UnrollElementwisePass,  # it makes larger kernels, before they are grouped
    FuseMatmulsPass,  # biases stand right behind their products now
    SplitTapsPass,  # on filters that normalisations are folded into; not with strict_fp
    WinogradPass,  # on filters that normalisations are folded into; not with strict_fp
    UnfoldConvolutionsPass,  # those that are left
    FuseAttentionPass,  # before parts of an attention join other groups
    StoreLiteralsPass,  # behind all that folds numbers, before kernels hold them
    CutStagesPass,  # after what looks at whole programs alone; no kernel is of two ranks
    FusePass,  # it decides what becomes one kernel
    ScheduleMemoryPass,  # kernels
)

GRAPH_PASSES = (*SIMPLIFYING_PASSES, *GROUPING_PASSES)

NAIVE_GRAPH_PASSES: tuple[type[ModulePass], ...] = (
    InlineCallsPass, UnifySizesPass, PartitionPass, FoldConstantsPass, DeduplicateConstantsPass,
    CseDcePass, InlineRegionsPass, CutStagesPass,
)  # fmt: skip

INEXACT_PASSES: tuple[type[ModulePass], ...] = (
    FuseQuantizedPass, FuseBlockQuantizedPass, WidenHalvesPass, FlushSubnormalsPass,
    CropConvolutionsPass, SplitTapsPass, RoundActivationsPass, WinogradPass,
)  # fmt: skip
"""Those that change how results are rounded, which strict_fp leaves out."""
