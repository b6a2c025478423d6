; Stands for rocSHMEM's device bitcode in tests: the documented functions, under the names that C++
; gives them in namespace rocshmem.
target triple = "amdgcn-amd-amdhsa"

; rocshmem::rocshmem_ptr(void const*, int)
define ptr @_ZN8rocshmem12rocshmem_ptrEPKvi(ptr %data, i32 %pe) noinline {
  ret ptr null
}
; rocshmem::rocshmem_putmem_nbi(void*, void const*, unsigned long, int)
define void @_ZN8rocshmem19rocshmem_putmem_nbiEPvPKvmi(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "; putmem_nbi", ""()
  ret void
}
; rocshmem::rocshmem_getmem(void*, void const*, unsigned long, int)
define void @_ZN8rocshmem15rocshmem_getmemEPvPKvmi(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "; getmem", ""()
  ret void
}
; rocshmem::rocshmem_putmem_nbi_wg(void*, void const*, unsigned long, int)
define void @_ZN8rocshmem22rocshmem_putmem_nbi_wgEPvPKvmi(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "; putmem_nbi_wg", ""()
  ret void
}
; rocshmem::rocshmem_getmem_wg(void*, void const*, unsigned long, int)
define void @_ZN8rocshmem18rocshmem_getmem_wgEPvPKvmi(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "; getmem_wg", ""()
  ret void
}
; rocshmem::rocshmem_uint64_atomic_add(unsigned long*, unsigned long, int)
define void @_ZN8rocshmem26rocshmem_uint64_atomic_addEPmmi(ptr %cell, i64 %value, i32 %pe) noinline {
  call void asm sideeffect "; atomic_add", ""()
  ret void
}
; rocshmem::rocshmem_fence()
define void @_ZN8rocshmem14rocshmem_fenceEv() noinline {
  call void asm sideeffect "; fence", ""()
  ret void
}
; rocshmem::rocshmem_quiet()
define void @_ZN8rocshmem14rocshmem_quietEv() noinline {
  call void asm sideeffect "; quiet", ""()
  ret void
}
