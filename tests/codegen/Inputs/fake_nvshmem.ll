; Stands for NVSHMEM's device bitcode in tests: the documented functions, doing little, and the
; symbols that the host library looks for.
target triple = "nvptx64-nvidia-cuda"

@nvshmemi_device_state_d = addrspace(4) externally_initialized global [64 x i8] zeroinitializer, align 8
@nvshmemi_device_lib_version_d = addrspace(4) externally_initialized global { i32, i32, i32 } { i32 3, i32 4, i32 5 }, align 4
@llvm.used = appending global [1 x ptr] [ptr @nvshmem_not_called], section "llvm.metadata"

define ptr @nvshmem_ptr(ptr %data, i32 %pe) noinline {
  %state = addrspacecast ptr addrspace(4) @nvshmemi_device_state_d to ptr
  %bases = load ptr, ptr %state
  %slot = getelementptr ptr, ptr %bases, i32 %pe
  %base = load ptr, ptr %slot
  ret ptr %base
}
define void @nvshmem_putmem_nbi(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "// putmem_nbi", ""()
  ret void
}
define void @nvshmem_putmem_signal_nbi(ptr %to, ptr %from, i64 %bytes, ptr %signal, i64 %value, i32 %operation, i32 %pe) noinline {
  call void asm sideeffect "// putmem_signal_nbi", ""()
  ret void
}
define void @nvshmem_getmem(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "// getmem", ""()
  ret void
}
define void @nvshmemx_putmem_nbi_block(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "// putmem_nbi_block", ""()
  ret void
}
define void @nvshmemx_getmem_block(ptr %to, ptr %from, i64 %bytes, i32 %pe) noinline {
  call void asm sideeffect "// getmem_block", ""()
  ret void
}
define void @nvshmemx_signal_op(ptr %signal, i64 %value, i32 %operation, i32 %pe) noinline {
  call void asm sideeffect "// signal_op", ""()
  ret void
}
define i64 @nvshmem_signal_wait_until(ptr %signal, i32 %comparison, i64 %value) noinline {
  call void asm sideeffect "// signal_wait_until", ""()
  ret i64 %value
}
define void @nvshmem_fence() noinline {
  call void asm sideeffect "// fence", ""()
  ret void
}
define void @nvshmem_quiet() noinline {
  call void asm sideeffect "// quiet", ""()
  ret void
}
define void @nvshmem_uint8_p(ptr %to, i8 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint8_p", ""()
  ret void
}
define void @nvshmem_uint16_p(ptr %to, i16 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint16_p", ""()
  ret void
}
define void @nvshmem_uint32_p(ptr %to, i32 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint32_p", ""()
  ret void
}
define void @nvshmem_uint64_p(ptr %to, i64 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint64_p", ""()
  ret void
}
define void @nvshmem_uint32_atomic_add(ptr %word, i32 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint32_atomic_add", ""()
  ret void
}
define i32 @nvshmem_uint32_atomic_fetch_add(ptr %word, i32 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint32_atomic_fetch_add", ""()
  ret i32 %value
}
define i32 @nvshmem_uint32_atomic_compare_swap(ptr %word, i32 %expected, i32 %desired, i32 %pe) noinline {
  call void asm sideeffect "// uint32_atomic_compare_swap", ""()
  ret i32 %expected
}
define void @nvshmem_uint64_atomic_add(ptr %word, i64 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint64_atomic_add", ""()
  ret void
}
define i64 @nvshmem_uint64_atomic_fetch_add(ptr %word, i64 %value, i32 %pe) noinline {
  call void asm sideeffect "// uint64_atomic_fetch_add", ""()
  ret i64 %value
}
define i64 @nvshmem_uint64_atomic_compare_swap(ptr %word, i64 %expected, i64 %desired, i32 %pe) noinline {
  call void asm sideeffect "// uint64_atomic_compare_swap", ""()
  ret i64 %expected
}
define void @nvshmem_not_called() noinline {
  ret void
}
