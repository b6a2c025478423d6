/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Loads a kernel by TVM FFI's stable C ABI, whose declarations (of tvm/ffi/c_api.h and DLPack) are
 * written here a second time. usage: loader LIBRARY [GPU] */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtile/dtile.h"

typedef struct {
  int32_t device_type, device_id;
} DLDevice;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void *, int);
} TVMFFIObject;
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
  };
} TVMFFIAny;
typedef int (*TVMFFISafeCallType)(void *, const TVMFFIAny *, int32_t, TVMFFIAny *);
enum { kInt = 1, kFloat = 3, kDLTensorPtr = 7, kTensor = 70 };

/* As TVM FFI's library has them. */
static char raised[1024];
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  snprintf(raised, sizeof raised, "%s: %s", kind, message);
}
static int32_t asked_type, asked_id;
static void *the_stream;
void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  asked_type = device_type, asked_id = device_id;
  return the_stream;
}

static TVMFFISafeCallType affine;
static int failures;
static void expect(int is_true, const char *what) {
  printf("%s: %s\n", is_true ? "right" : "WRONG", what);
  failures += !is_true;
}

static TVMFFIAny integer(int64_t value) { return (TVMFFIAny){kInt, 0, {.v_int64 = value}}; }
static TVMFFIAny number(double value) { return (TVMFFIAny){kFloat, 0, {.v_float64 = value}}; }
static TVMFFIAny tensor(DLTensor *value) { return (TVMFFIAny){kDLTensorPtr, 0, {.v_ptr = value}}; }

/* What a call with these is refused for. */
static void refused(TVMFFIAny alpha, TVMFFIAny shift, TVMFFIAny x, TVMFFIAny y, int32_t count) {
  const TVMFFIAny args[] = {alpha, shift, x, y};
  TVMFFIAny result = {0};
  raised[0] = 0;
  const int code = affine(NULL, args, count, &result);
  printf("refused with %d: %s\n", code, raised);
  failures += code != -1 || strstr(raised, dtile_last_error()) == NULL;
}

enum { M = 3, N = 100 };

static DLTensor matrix(float *data, int64_t *shape, DLDevice device) {
  return (DLTensor){data, device, 2, {2, 32, 1}, shape, NULL, 0};
}

static void on_processors(void) {
  static float from[M * N + 1], to[M * N];
  int64_t shape[] = {M, N}, turned[] = {1, M};
  DLTensor x = matrix(from, shape, (DLDevice){1, 0}), y = matrix(to, shape, (DLDevice){1, 0});
  for (int i = 0; i <= M * N; ++i)
    from[i] = (float)i;
  TVMFFIAny args[] = {number(0.5), integer(3), tensor(&x), tensor(&y)};
  TVMFFIAny result = {kInt, 0, {.v_int64 = 7}};
  refused(args[0], args[1], args[2], args[3], 4);

  dtile_team_options options = DTILE_TEAM_OPTIONS_INIT;
  options.ranks = 1;
  dtile_team *team = NULL;
  expect(dtile_team_create_threads(&options, &team) == DTILE_OK, "a team");
  expect(dtile_team_use(team) == DTILE_OK, "is in use");
  expect(affine(NULL, args, 4, &result) == 0, "the call");
  expect(result.type_index == 0 && result.v_int64 == 0, "nothing is returned");
  int same = 1;
  for (int i = 0; i < M * N; ++i)
    same &= to[i] == (float)i * 0.5f + 3;
  expect(same, "rows");

  /* By columns, from the second number on, alpha as an integer, tensors as objects. */
  struct {
    TVMFFIObject head;
    DLTensor tensor;
  } object = {{1, kTensor, 0, NULL}, x};
  object.tensor.strides = turned;
  object.tensor.byte_offset = 4;
  args[0] = integer(2);
  args[2] = (TVMFFIAny){kTensor, 0, {.v_ptr = &object}};
  expect(affine(NULL, args, 4, &result) == 0, "the second call");
  same = 1;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      same &= to[i * N + j] == (float)(1 + i + M * j) * 2 + 3;
  expect(same, "columns");

  DLTensor half = x, deep = x, lanes = x, short_ = y;
  int64_t fewer[] = {M, N - 1};
  half.dtype.bits = 16;
  deep.ndim = 7;
  lanes.dtype.lanes = 4;
  short_.shape = fewer;
  const TVMFFIAny a = number(1), s = integer(0), t = tensor(&x), o = tensor(&y);
  refused(a, s, t, o, 3);
  refused(a, s, a, o, 4);
  refused(t, s, t, o, 4);
  refused(a, a, t, o, 4);
  refused(a, integer((int64_t)1 << 31), t, o, 4);
  refused(a, integer(-1), t, o, 4);
  refused(a, s, tensor(&half), o, 4);
  refused(a, s, tensor(&deep), o, 4);
  refused(a, s, tensor(&lanes), o, 4);
  refused(a, s, t, tensor(&short_), 4);
  refused(a, s, (TVMFFIAny){kDLTensorPtr, 0, {.v_ptr = NULL}}, o, 4);
  dtile_team_destroy(team);
  refused(a, s, t, o, 4);

  options.ranks = 2;
  expect(dtile_team_create_threads(&options, &team) == DTILE_OK, "a team of two");
  dtile_team_use(team);
  refused(a, s, t, o, 4);
  dtile_team_destroy(team);
}

static void on_gpus(void) {
  dtile_device_options options = DTILE_DEVICE_OPTIONS_INIT;
  options.ndevices = 2;
  dtile_team *team = NULL;
  expect(dtile_team_create_devices(&options, &team) == DTILE_OK, "a team");
  dtile_team_use(team);
  void *from = NULL, *to = NULL;
  dtile_device_alloc(team, 1, M * N * 4, &from);
  dtile_device_alloc(team, 1, M * N * 4, &to);
  dtile_team_stream(team, 1, &the_stream);
  int64_t shape[] = {M, N};
  DLTensor x = matrix(from, shape, (DLDevice){2, 1}), y = matrix(to, shape, (DLDevice){2, 1});
  const TVMFFIAny args[] = {number(0.5), integer(3), tensor(&x), tensor(&y)};
  TVMFFIAny result = {0};
  fflush(stdout);
  expect(affine(NULL, args, 4, &result) == 0, "the call");
  expect(asked_type == 2 && asked_id == 1, "the stream of the tensor's GPU");
  x.device.device_id = 5;
  refused(args[0], args[1], args[2], args[3], 4);
  dtile_team_destroy(team);
}

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library)
    return fprintf(stderr, "%s\n", dlerror()), 2;
  affine = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_affine");
  if (!affine)
    return fprintf(stderr, "%s\n", dlerror()), 2;
  if (argc > 2)
    on_gpus();
  else
    on_processors();
  return failures != 0;
}
