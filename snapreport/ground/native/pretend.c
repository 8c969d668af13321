/* CUDA's device guard and hooks for a machine without a GPU, under ``snapreport forecast``.
 *
 * PyTorch asks both through tables of virtual functions. pretend.py copies the tables that are there
 * and puts these functions in; so nothing has to be compiled against PyTorch's headers. They follow
 * the Itanium C++ ABI (Linux, macOS): the object is the first argument, and small trivial classes
 * are passed as C passes structs.
 *
 * Sources: c10/core/impl/DeviceGuardImplInterface.h, ATen/detail/AcceleratorHooksInterface.h and
 * CUDAHooksInterface.h; c10/core/Device.h and Stream.h for the two structs.
 */

#include "native.h"

enum { CUDA = 1, MOST_DEVICES = 64, LIKELY_DEVICES = 8 };

typedef struct {
    int8_t type, index;
} device;

typedef struct {
    device device;
    int64_t id; /* 0: the default stream */
} stream;

static _Thread_local int8_t current;
static _Thread_local int64_t current_stream[MOST_DEVICES];
static int8_t count = 1;
static int64_t next_stream;

static int8_t index_of(device d)
{
    return d.index >= 0 && d.index < MOST_DEVICES ? d.index : current;
}

static device cuda(int8_t index) { return (device){CUDA, index}; }

static stream on(int8_t index, int64_t id) { return (stream){cuda(index), id}; }

/* For Python. */

EXPORT void snapreport_pretend_count(int32_t devices) { count = (int8_t)devices; }

EXPORT int32_t snapreport_pretend_device(void) { return current; }

EXPORT void snapreport_pretend_set_device(int32_t index)
{
    if (index >= 0 && index < MOST_DEVICES)
        current = (int8_t)index;
}

EXPORT int64_t snapreport_pretend_stream(int32_t index)
{
    return index >= 0 && index < MOST_DEVICES ? current_stream[index] : 0;
}

EXPORT void snapreport_pretend_set_stream(int32_t index, int64_t id)
{
    if (index >= 0 && index < MOST_DEVICES)
        current_stream[index] = id;
}

/* The guard. Each function is named after the one whose place it takes. */

EXPORT int8_t snapreport_guard_type(void *self)
{
    (void)self;
    return CUDA;
}

EXPORT device snapreport_guard_exchangeDevice(void *self, device d)
{
    (void)self;
    const device before = cuda(current);
    current = index_of(d);
    return before;
}

EXPORT device snapreport_guard_getDevice(void *self)
{
    (void)self;
    return cuda(current);
}

EXPORT void snapreport_guard_setDevice(void *self, device d)
{
    (void)self;
    current = index_of(d);
}

EXPORT void snapreport_guard_uncheckedSetDevice(void *self, device d) { snapreport_guard_setDevice(self, d); }

EXPORT stream snapreport_guard_getStream(void *self, device d)
{
    (void)self;
    const int8_t index = index_of(d);
    return on(index, current_stream[index]);
}

EXPORT stream snapreport_guard_getDefaultStream(void *self, device d)
{
    (void)self;
    return on(index_of(d), 0);
}

EXPORT stream snapreport_guard_getStreamFromGlobalPool(void *self, device d, int high)
{
    (void)self;
    (void)high;
    return on(index_of(d), ++next_stream);
}

EXPORT stream snapreport_guard_getNewStream(void *self, device d, int priority)
{
    return snapreport_guard_getStreamFromGlobalPool(self, d, priority);
}

EXPORT stream snapreport_guard_exchangeStream(void *self, stream s)
{
    (void)self;
    const int8_t index = index_of(s.device);
    const stream before = on(index, current_stream[index]);
    current_stream[index] = s.id;
    return before;
}

EXPORT void *snapreport_guard_getStreamNativeHandle(void *self, stream s)
{
    (void)self;
    (void)s;
    return NULL;
}

EXPORT void snapreport_guard_destroyEvent(void *self, void *event, int8_t index)
{
    (void)self;
    (void)event;
    (void)index;
}

EXPORT void snapreport_guard_record(void *self, void **event, const stream *s, int8_t index, int flag)
{
    (void)self;
    (void)s;
    (void)index;
    (void)flag;
    *event = &current; /* anything but NULL: it was recorded */
}

EXPORT void snapreport_guard_block(void *self, void *event, const stream *s)
{
    (void)self;
    (void)event;
    (void)s;
}

EXPORT int8_t snapreport_guard_queryEvent(void *self, void *event)
{
    (void)self;
    (void)event;
    return 1;
}

/* Autograd makes a thread for each device once; a later forecast in this process may have more. */
EXPORT int8_t snapreport_guard_deviceCount(void *self)
{
    (void)self;
    return count < LIKELY_DEVICES ? LIKELY_DEVICES : count;
}

EXPORT int8_t snapreport_guard_queryStream(void *self, const stream *s)
{
    (void)self;
    (void)s;
    return 1;
}

EXPORT void snapreport_guard_synchronizeStream(void *self, const stream *s)
{
    (void)self;
    (void)s;
}

EXPORT int8_t snapreport_guard_isStreamCapturing(void *self, const stream *s)
{
    (void)self;
    (void)s;
    return 0;
}

EXPORT void snapreport_guard_synchronizeEvent(void *self, void *event)
{
    (void)self;
    (void)event;
}

EXPORT void snapreport_guard_synchronizeDevice(void *self, int8_t index)
{
    (void)self;
    (void)index;
}

EXPORT void snapreport_guard_recordDataPtrOnStream(void *self, const void *data, const stream *s)
{
    (void)self;
    (void)data;
    (void)s;
}

EXPORT double snapreport_guard_elapsedTime(void *self, void *start, void *end, int8_t index)
{
    (void)self;
    (void)start;
    (void)end;
    (void)index;
    return 0;
}

/* The hooks. */

EXPORT int8_t snapreport_hooks_yes(void *self)
{
    (void)self;
    return 1;
}

EXPORT int8_t snapreport_hooks_hasPrimaryContext(void *self, int8_t index)
{
    (void)self;
    return index < count;
}

EXPORT void snapreport_hooks_init(void *self) { (void)self; }

EXPORT int8_t snapreport_hooks_deviceCount(void *self)
{
    (void)self;
    return count;
}

EXPORT int32_t snapreport_hooks_getNumGPUs(void *self)
{
    (void)self;
    return count;
}

EXPORT int8_t snapreport_hooks_getCurrentDevice(void *self)
{
    (void)self;
    return current;
}

EXPORT void snapreport_hooks_setCurrentDevice(void *self, int8_t index)
{
    (void)self;
    snapreport_pretend_set_device(index);
}

EXPORT int8_t snapreport_hooks_exchangeDevice(void *self, int8_t index)
{
    (void)self;
    const int8_t before = current;
    snapreport_pretend_set_device(index);
    return before;
}

EXPORT void snapreport_hooks_deviceSynchronize(void *self, int8_t index)
{
    (void)self;
    (void)index;
}

EXPORT int8_t snapreport_hooks_isPinnedPtr(void *self, const void *data)
{
    (void)self;
    (void)data;
    return 0;
}

EXPORT double snapreport_hooks_batchnormMinEpsilonCuDNN(void *self)
{
    (void)self;
    return 0; /* CUDNN_BN_MIN_EPSILON */
}

EXPORT long snapreport_hooks_versionCuDNN(void *self)
{
    (void)self;
    return 92000;
}

EXPORT long snapreport_hooks_versionCUDART(void *self)
{
    (void)self;
    return 12080;
}

EXPORT device snapreport_hooks_getDeviceFromPtr(void *self, void *data)
{
    (void)self;
    (void)data;
    return cuda(current);
}

EXPORT int64_t snapreport_hooks_none(void *self)
{
    (void)self;
    return 0;
}

/* Tensors without memory: PyTorch takes them through DLPack, and says when one is gone.
 *
 * Source: include/dlpack/dlpack.h, version 0.8 (DLTensor, DLManagedTensor). */

typedef struct managed {
    void *data;
    int32_t device_type, device_index, n_dims;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
    void *context;
    void (*deleter)(struct managed *);
    int64_t id;
    int64_t dims[]; /* the shape, then the strides */
} managed;

/* Functions of Python's C API. */
typedef struct {
    int (*ensure)(void);
    void (*release)(int state);
    void (*fetch)(void **type, void **value, void **traceback);
    void (*restore)(void *type, void *value, void *traceback);
} interpreter;

static void (*gone)(int64_t id);
static interpreter python;

/* Call a function with the id of each tensor whose memory is freed; NULL for none. */
EXPORT void snapreport_pretend_on_free(void (*callback)(int64_t), const interpreter *api)
{
    python = *api;
    gone = callback;
}

static void delete_managed(managed *m)
{
    if (gone != NULL && m->id >= 0) {
        /* Tensors also go while an exception passes their frames: the callback must not see it. */
        void *error[3];
        const int state = python.ensure();
        python.fetch(&error[0], &error[1], &error[2]);
        gone(m->id);
        python.restore(error[0], error[1], error[2]);
        python.release(state);
    }
    free(m);
}

/* Return what a capsule named "dltensor" holds, NULL if there is no memory. */
EXPORT void *snapreport_pretend_tensor(int64_t address, int32_t index, int32_t code, int32_t bits,
                                       int64_t id, int32_t n_dims, const int64_t *dims)
{
    const size_t size = (size_t)n_dims * 2 * sizeof *dims;
    managed *m = calloc(1, sizeof *m + size);
    if (m == NULL)
        return NULL;
    m->data = (void *)(intptr_t)address;
    m->device_type = 2; /* kDLCUDA */
    m->device_index = index;
    m->n_dims = n_dims;
    m->code = (uint8_t)code;
    m->bits = (uint8_t)bits;
    m->lanes = 1;
    if (size)
        memcpy(m->dims, dims, size);
    m->shape = m->dims;
    m->strides = m->dims + n_dims;
    m->deleter = delete_managed;
    m->id = id;
    return m;
}
