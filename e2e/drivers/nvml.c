/* Answers for libnvidia-ml.so.1, by which NVIDIA's programs ask a GPU's driver. No hardware is here.
 *
 * $NVML_MACHINE names a file with one line for each thing that can be asked:
 *
 *     driver VERSION
 *     cuda NUMBER
 *     gpu MINOR UUID BUS MEBIBYTES NUMA COMPUTE-MAJOR COMPUTE-MINOR ARCHITECTURE NAME
 *     profile INDEX ID SLICES SIZE MEBIBYTES SM COPY DECODE JPEG OFA START...
 *
 * $NVML_PARTITIONS names a file that lasts as long as a GPU's state does: longer than the programs
 * that ask, because they create and destroy partitions.
 *
 *     mode GPU 0|1
 *     partition GPU INSTANCE PROFILE START UUID
 *
 * A second file, made of the header, answers "not supported" to all that has no answer here.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "nvml.h"

enum { GPUS = 16, PARTITIONS = 8, PROFILES = 16, STARTS = 8, TEXT = 96 };

typedef struct {
    int index, id, slices, size, starts[STARTS], count;
    unsigned long long mebibytes;
    unsigned sm, copy, decode, jpeg, ofa;
} Profile;

/* A GPU, or a partition of one: then `gpu` is the GPU. A partition has one GPU instance and in it
 * one compute instance, so its handle is the handle of all three. */
typedef struct Device {
    struct Device *gpu;
    char uuid[TEXT];
    /* of a GPU */
    int index, minor, numa, major_compute, minor_compute, architecture, mode;
    char bus[TEXT], name[TEXT];
    unsigned long long mebibytes;
    struct Device *partitions[PARTITIONS];
    /* of a partition */
    const Profile *profile;
    int instance, start, computes;
} Device;

static Device gpus[GPUS];
static Profile profiles[PROFILES];
static int gpu_count, profile_count, cuda, loaded;
static char driver[TEXT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define OF(handle_) ((Device *)(handle_).handle)
#define HANDLE(type, device) ((type){(void *)(device)})
#define PUBLIC nvmlReturn_t

static PUBLIC say(char *to, unsigned length, const char *text) {
    return snprintf(to, length, "%s", text) < (int)length ? NVML_SUCCESS
                                                          : NVML_ERROR_INSUFFICIENT_SIZE;
}

static int is_partition(nvmlDevice_t device) { return OF(device)->profile != NULL; }

static const Profile *profile_with(int number, int is_id) {
    for (int i = 0; i < profile_count; i++)
        if ((is_id ? profiles[i].id : profiles[i].index) == number) return &profiles[i];
    return NULL;
}

/* --- the two files ----------------------------------------------------------------------------- */

static Device *add_partition(Device *gpu, int instance, const Profile *profile, int start) {
    for (int i = 0; i < PARTITIONS; i++) {
        if (gpu->partitions[i]) continue;
        Device *made = gpu->partitions[i] = calloc(1, sizeof *made);
        made->gpu = gpu;
        made->profile = profile;
        made->instance = instance;
        made->start = start;
        return made;
    }
    return NULL;
}

static void read_profile(const char *line) {
    Profile *one = &profiles[profile_count];
    int at = 0;
    if (profile_count == PROFILES ||
        sscanf(line, "profile %d %d %d %d %llu %u %u %u %u %u%n", &one->index, &one->id, &one->slices,
               &one->size, &one->mebibytes, &one->sm, &one->copy, &one->decode, &one->jpeg, &one->ofa,
               &at) != 10)
        return;
    profile_count++;
    for (line += at; one->count < STARTS; line += at, one->count++)
        if (sscanf(line, "%d%n", &one->starts[one->count], &at) != 1) return;
}

static void read_machine_line(char *line) {
    Device *gpu = &gpus[gpu_count];
    int at = 0;
    sscanf(line, "driver %95s", driver);
    sscanf(line, "cuda %d", &cuda);
    read_profile(line);
    if (gpu_count < GPUS &&
        sscanf(line, "gpu %d %95s %95s %llu %d %d %d %d %n", &gpu->minor, gpu->uuid, gpu->bus,
               &gpu->mebibytes, &gpu->numa, &gpu->major_compute, &gpu->minor_compute,
               &gpu->architecture, &at) == 8) {
        gpu->gpu = gpu;
        gpu->index = gpu_count++;
        snprintf(gpu->name, TEXT, "%s", line + at);
    }
}

static void read_partition_line(char *line) {
    int gpu, instance, index, start, mode;
    char uuid[TEXT];
    if (sscanf(line, "mode %d %d", &gpu, &mode) == 2 && gpu < gpu_count) gpus[gpu].mode = mode;
    if (sscanf(line, "partition %d %d %d %d %95s", &gpu, &instance, &index, &start, uuid) != 5 ||
        gpu >= gpu_count || !profile_with(index, 0))
        return;
    Device *made = add_partition(&gpus[gpu], instance, profile_with(index, 0), start);
    if (!made) return;
    made->computes = 1;
    snprintf(made->uuid, TEXT, "%s", uuid);
}

static int read_lines(const char *variable, void (*use)(char *)) {
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 0;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        use(line);
    }
    fclose(file);
    return 1;
}

static void write_partitions(void) {
    const char *path = getenv("NVML_PARTITIONS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < gpu_count; i++) {
        fprintf(file, "mode %d %d\n", i, gpus[i].mode);
        for (int j = 0; j < PARTITIONS; j++) {
            Device *one = gpus[i].partitions[j];
            if (one && one->computes)
                fprintf(file, "partition %d %d %d %d %s\n", i, one->instance, one->profile->index,
                        one->start, one->uuid);
        }
    }
    fclose(file);
}

static PUBLIC load(void) {
    pthread_mutex_lock(&lock);
    if (!loaded && read_lines("NVML_MACHINE", read_machine_line)) {
        loaded = 1;
        read_lines("NVML_PARTITIONS", read_partition_line);
    }
    pthread_mutex_unlock(&lock);
    return loaded ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

/* --- the library ------------------------------------------------------------------------------- */

PUBLIC nvmlInit_v2(void) { return load(); }
PUBLIC nvmlInitWithFlags(unsigned flags) { (void)flags; return load(); }
PUBLIC nvmlShutdown(void) { return NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    default: return "Error";
    }
}

PUBLIC nvmlSystemGetDriverVersion(char *to, unsigned length) { return say(to, length, driver); }
PUBLIC nvmlSystemGetNVMLVersion(char *to, unsigned length) { return say(to, length, driver); }
PUBLIC nvmlSystemGetCudaDriverVersion(int *to) { *to = cuda; return NVML_SUCCESS; }
PUBLIC nvmlSystemGetCudaDriverVersion_v2(int *to) { *to = cuda; return NVML_SUCCESS; }

/* --- finding devices --------------------------------------------------------------------------- */

PUBLIC nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)gpu_count; return NVML_SUCCESS; }

PUBLIC nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *to) {
    if ((int)index >= gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
    *to = HANDLE(nvmlDevice_t, &gpus[index]);
    return NVML_SUCCESS;
}

PUBLIC nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *to) {
    for (int i = 0; i < gpu_count; i++)
        for (int j = -1; j < PARTITIONS; j++) {
            Device *one = j < 0 ? &gpus[i] : gpus[i].partitions[j];
            if (!one || strcmp(uuid, one->uuid)) continue;
            *to = HANDLE(nvmlDevice_t, one);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

PUBLIC nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *to) {
    unsigned asked[4] = {0}, own[4];
    sscanf(bus, "%x:%x:%x.%x", &asked[0], &asked[1], &asked[2], &asked[3]);
    for (int i = 0; i < gpu_count; i++) {
        memset(own, 0, sizeof own);
        sscanf(gpus[i].bus, "%x:%x:%x.%x", &own[0], &own[1], &own[2], &own[3]);
        if (memcmp(asked, own, sizeof own)) continue;
        *to = HANDLE(nvmlDevice_t, &gpus[i]);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

/* --- what a device is -------------------------------------------------------------------------- */

PUBLIC nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *to) {
    *to = (unsigned)OF(device)->gpu->index;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *to) {
    *to = (unsigned)OF(device)->gpu->minor;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetUUID(nvmlDevice_t device, char *to, unsigned length) {
    return say(to, length, OF(device)->uuid);
}
PUBLIC nvmlDeviceGetName(nvmlDevice_t device, char *to, unsigned length) {
    return say(to, length, OF(device)->gpu->name);
}
PUBLIC nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *to) {
    (void)device;
    *to = NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *to) {
    *to = (nvmlDeviceArchitecture_t)OF(device)->gpu->architecture;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    *major = OF(device)->gpu->major_compute;
    *minor = OF(device)->gpu->minor_compute;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *to) {
    unsigned long long size = is_partition(device) ? OF(device)->profile->mebibytes : OF(device)->mebibytes;
    *to = (nvmlMemory_t){.total = size << 20, .free = size << 20};
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *to) {
    unsigned domain = 0, bus = 0, place = 0;
    sscanf(OF(device)->gpu->bus, "%x:%x:%x", &domain, &bus, &place);
    *to = (nvmlPciInfo_t){.domain = domain, .bus = bus, .device = place, .pciDeviceId = 0x20b010de};
    snprintf(to->busIdLegacy, sizeof to->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff, bus, place);
    snprintf(to->busId, sizeof to->busId, "%08X:%02X:%02X.0", domain, bus, place);
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *to) {
    (void)device;
    to->value = NVML_DEVICE_ADDRESSING_MODE_HMM;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *to) {
    (void)device;
    *to = NVML_GPU_VIRTUALIZATION_MODE_NONE;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *to) {
    *to = (unsigned)OF(device)->gpu->numa;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                           nvmlGpuTopologyLevel_t *to) {
    int same = OF(one)->gpu->numa == OF(other)->gpu->numa;
    *to = same ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

/* --- partitions -------------------------------------------------------------------------------- */

PUBLIC nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    if (!profile_count) return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = (unsigned)OF(device)->gpu->mode;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation) {
    if (!profile_count) return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    OF(device)->gpu->mode = (int)mode;
    write_partitions();
    pthread_mutex_unlock(&lock);
    *activation = NVML_SUCCESS;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    *count = OF(device)->gpu->mode ? PARTITIONS - 1 : 0;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *answer) {
    *answer = (unsigned)is_partition(device);
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *to) {
    Device *one = index < PARTITIONS ? OF(device)->partitions[index] : NULL;
    if (!one || !one->computes) return NVML_ERROR_NOT_FOUND;
    *to = HANDLE(nvmlDevice_t, one);
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *to) {
    *to = HANDLE(nvmlDevice_t, OF(device)->gpu);
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *to) {
    if (!is_partition(device)) return NVML_ERROR_NOT_SUPPORTED;
    *to = (unsigned)OF(device)->instance;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *to) {
    if (!is_partition(device)) return NVML_ERROR_NOT_SUPPORTED;
    *to = 0;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *to) {
    if (!is_partition(device)) return NVML_ERROR_NOT_SUPPORTED;
    const Profile *own = OF(device)->profile;
    *to = (nvmlDeviceAttributes_t){
        .multiprocessorCount = own->sm, .sharedCopyEngineCount = own->copy,
        .sharedDecoderCount = own->decode, .sharedJpegCount = own->jpeg, .sharedOfaCount = own->ofa,
        .gpuInstanceSliceCount = (unsigned)own->slices,
        .computeInstanceSliceCount = (unsigned)own->slices, .memorySizeMB = own->mebibytes};
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned index,
                                           nvmlGpuInstanceProfileInfo_t *to) {
    (void)device;
    const Profile *one = profile_with((int)index, 0);
    if (!one) return NVML_ERROR_NOT_SUPPORTED;
    *to = (nvmlGpuInstanceProfileInfo_t){
        .id = (unsigned)one->id, .sliceCount = (unsigned)one->slices,
        .instanceCount = (unsigned)one->count, .multiprocessorCount = one->sm,
        .copyEngineCount = one->copy, .decoderCount = one->decode, .jpegCount = one->jpeg,
        .ofaCount = one->ofa, .memorySizeMB = one->mebibytes};
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                     nvmlGpuInstancePlacement_t *to,
                                                     unsigned *count) {
    (void)device;
    const Profile *one = profile_with((int)id, 1);
    if (!one) return NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; to && i < one->count; i++)
        to[i] = (nvmlGpuInstancePlacement_t){(unsigned)one->starts[i], (unsigned)one->size};
    *count = (unsigned)one->count;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *to) {
    for (int i = 0; i < PARTITIONS; i++) {
        Device *one = OF(device)->partitions[i];
        if (!one || one->instance != (int)id) continue;
        *to = HANDLE(nvmlGpuInstance_t, one);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}
PUBLIC nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *to) {
    Device *one = OF(instance);
    *to = (nvmlGpuInstanceInfo_t){
        .device = HANDLE(nvmlDevice_t, one->gpu), .id = (unsigned)one->instance,
        .profileId = (unsigned)one->profile->id,
        .placement = {(unsigned)one->start, (unsigned)one->profile->size}};
    return NVML_SUCCESS;
}
/* A compute instance takes its whole GPU instance: the profile of the same number of slices. */
PUBLIC nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned index,
                                                    unsigned engine,
                                                    nvmlComputeInstanceProfileInfo_t *to) {
    const Profile *own = OF(instance)->profile;
    (void)engine;
    if ((int)index != own->index) return NVML_ERROR_NOT_SUPPORTED;
    *to = (nvmlComputeInstanceProfileInfo_t){
        .id = index, .sliceCount = (unsigned)own->slices, .instanceCount = 1,
        .multiprocessorCount = own->sm, .sharedCopyEngineCount = own->copy,
        .sharedDecoderCount = own->decode};
    return NVML_SUCCESS;
}
PUBLIC nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned id,
                                             nvmlComputeInstance_t *to) {
    if (id || !OF(instance)->computes) return NVML_ERROR_NOT_FOUND;
    *to = HANDLE(nvmlComputeInstance_t, OF(instance));
    return NVML_SUCCESS;
}
PUBLIC nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *to) {
    Device *one = OF(instance);
    *to = (nvmlComputeInstanceInfo_t){
        .device = HANDLE(nvmlDevice_t, one), .gpuInstance = HANDLE(nvmlGpuInstance_t, one),
        .profileId = (unsigned)one->profile->index, .placement = {0, (unsigned)one->profile->slices}};
    return NVML_SUCCESS;
}

/* --- partitions that a driver makes ------------------------------------------------------------ */

static int overlaps(const Device *gpu, unsigned start, unsigned size) {
    for (int i = 0; i < PARTITIONS; i++) {
        const Device *one = gpu->partitions[i];
        if (one && (unsigned)one->start < start + size &&
            start < (unsigned)(one->start + one->profile->size))
            return 1;
    }
    return 0;
}

/* An instance that starts at a slice has the number after it: one that no other has. */
PUBLIC nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned id,
                                                const nvmlGpuInstancePlacement_t *place,
                                                nvmlGpuInstance_t *to) {
    const Profile *profile = profile_with((int)id, 1);
    Device *gpu = OF(device);
    if (!profile || !gpu->mode) return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    Device *made = overlaps(gpu, place->start, place->size)
                       ? NULL
                       : add_partition(gpu, (int)place->start + 1, profile, (int)place->start);
    pthread_mutex_unlock(&lock);
    if (!made) return NVML_ERROR_INSUFFICIENT_RESOURCES;
    /* Another partition at the same place is another device. */
    snprintf(made->uuid, TEXT, "MIG-%08lx-%.27s", (unsigned long)time(NULL) & 0xffffffff,
             gpu->uuid + strlen("GPU-00000000-"));
    made->uuid[strlen(made->uuid) - 1] = (char)('0' + place->start);
    *to = HANDLE(nvmlGpuInstance_t, made);
    return NVML_SUCCESS;
}
PUBLIC nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned id,
                                            nvmlComputeInstance_t *to) {
    (void)id;
    pthread_mutex_lock(&lock);
    OF(instance)->computes = 1;
    write_partitions();
    pthread_mutex_unlock(&lock);
    *to = HANDLE(nvmlComputeInstance_t, OF(instance));
    return NVML_SUCCESS;
}
PUBLIC nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
    pthread_mutex_lock(&lock);
    OF(instance)->computes = 0;
    write_partitions();
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}
PUBLIC nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    Device *gone = OF(instance);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PARTITIONS; i++)
        if (gone->gpu->partitions[i] == gone) gone->gpu->partitions[i] = NULL;
    write_partitions();
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

/* --- events: none ever happens ----------------------------------------------------------------- */

PUBLIC nvmlEventSetCreate(nvmlEventSet_t *to) {
    *to = HANDLE(nvmlEventSet_t, gpus);
    return NVML_SUCCESS;
}
PUBLIC nvmlEventSetFree(nvmlEventSet_t set) { (void)set; return NVML_SUCCESS; }
PUBLIC nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *to) {
    (void)device;
    *to = nvmlEventTypeXidCriticalError;
    return NVML_SUCCESS;
}
PUBLIC nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    (void)device; (void)types; (void)set;
    return NVML_SUCCESS;
}
PUBLIC nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *to, unsigned milliseconds) {
    struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    (void)set; (void)to;
    nanosleep(&time, NULL);
    return NVML_ERROR_TIMEOUT;
}
