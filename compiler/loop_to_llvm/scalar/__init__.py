"""Operations on scalars and vectors in registers -> LLVM IR."""
