#pragma once
// One table of function pointers per kernel file and instruction set. NAME_table.h declares the struct and, with
// TERN_DECLARE_TABLES, one constant per set; NAME_isa.cpp, compiled once per set, defines that constant inside its
// namespace TERN_ISA_NAMESPACE; NAME.cpp forwards the public functions through TERN_TABLE_OF(..., active_isa()).
// How to write one: kernels/README.md.

#define TERN_DECLARE_TABLE(set, Type, name) \
  namespace set {                           \
  extern const Type name;                   \
  }
#if !defined(__x86_64__)
#define TERN_DECLARE_TABLES(Type, name) TERN_DECLARE_TABLE(isa_portable, Type, name)
#define TERN_TABLE_OF(name, isa) (static_cast<void>(isa), ::tern::isa_portable::name)
#elif defined(TERN_WITHOUT_AVX512)  // better sets are not compiled in: dispatch.h never hands them out
#define TERN_DECLARE_TABLES(Type, name)        \
  TERN_DECLARE_TABLE(isa_portable, Type, name) \
  TERN_DECLARE_TABLE(isa_avx2, Type, name)
#define TERN_TABLE_OF(name, isa) ((isa) == ::tern::Isa::portable ? ::tern::isa_portable::name : ::tern::isa_avx2::name)
#else
#define TERN_DECLARE_TABLES(Type, name)           \
  TERN_DECLARE_TABLE(isa_portable, Type, name)    \
  TERN_DECLARE_TABLE(isa_avx2, Type, name)        \
  TERN_DECLARE_TABLE(isa_avx512, Type, name)      \
  TERN_DECLARE_TABLE(isa_avx512_vnni, Type, name) \
  TERN_DECLARE_TABLE(isa_avx512_bf16, Type, name) \
  TERN_DECLARE_TABLE(isa_amx_bf16, Type, name)
#define TERN_TABLE_OF(name, isa)                                       \
  ((isa) == ::tern::Isa::amx_bf16      ? ::tern::isa_amx_bf16::name    \
   : (isa) == ::tern::Isa::avx512_bf16 ? ::tern::isa_avx512_bf16::name \
   : (isa) == ::tern::Isa::avx512_vnni ? ::tern::isa_avx512_vnni::name \
   : (isa) == ::tern::Isa::avx512      ? ::tern::isa_avx512::name      \
   : (isa) == ::tern::Isa::avx2        ? ::tern::isa_avx2::name        \
                                       : ::tern::isa_portable::name)
#endif
