// A stub of libnvidia-ml.so.1, for tests. Real clients of NVML run against it unmodified.
//
//   cc -shared -fPIC -O2 -Wall [-DENTRY=16|24|32] -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml.c
//
// What it says stands in the file that NVML_STUB_STATE names, one fact a line, read anew whenever the file changes;
// the stand-in for nvidia-smi reads the same file (see there for what only it knows):
//   driver VERSION CUDA           the version of the driver, and of CUDA as NVML gives it: 12080 is 12.8
//   gpu N [key=value ...] [lost] [name=NAME TO THE END]
//                                 a device; the keys are those of KEYS below, and uuid, capability; memtemp is temp
//                                 and 8 more unless it is told
//   slice N I key=value ... [name=NAME TO THE END]
//                                 a MIG slice of device N: total_mib used_mib reserved_mib gi ci gi_slices gpm_* uuid
//   proc N PID MIB [key=value ...]
//                                 a process on device N: sm (also as BASE%SPAN) mem enc dec, type=C|G|CG|M, slice=I;
//                                 MIB may be -
//   stale N PID SM                a row of the process samples that is garbage: an old process, an absurd share
//   xid N CODE [slice I] | event N TYPE DATA
//                                 something that happens, told to who has registered, once for each content of the file;
//                                 a set with a lost device in it has nothing but the loss to tell
//   fault FUNCTION[@N] HOW        HOW: an nvmlReturn_t, hang, crash, exit, or slow MICROSECONDS; FUNCTION nvml stands for all
//   at SECONDS LINE               LINE holds from so many seconds after the file was written
// A value is a number, BASE+RATE (grows by RATE a second from when the file was written), BASE%SPAN (wanders up to
// SPAN above BASE), ~ (not supported) or !CODE (the call for it fails so).
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef ENTRY
#define ENTRY 24
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10,
       GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };

#define KEYS(X) \
    X(util) X(memutil) X(temp) X(memtemp) X(power_mw) X(power_avg_mw) X(power_now_mw) X(limit_mw) \
    X(limit_requested_mw) X(limit_default_mw) X(limit_min_mw) X(limit_max_mw) X(energy_mj) X(used_mib) X(total_mib) \
    X(reserved_mib) X(bar1_total_mib) X(bar1_used_mib) X(clk_gr) X(clk_sm) X(clk_mem) X(clk_video) X(clk_gr_max) \
    X(clk_sm_max) X(clk_mem_max) X(clk_video_max) X(pstate) X(throttle) X(fan) X(persistence) X(compute_mode) \
    X(display) X(ecc_mode) X(ecc_cv) X(ecc_uv) X(ecc_ca) X(ecc_ua) X(pcie_gen) X(pcie_width) X(pcie_gen_max) \
    X(pcie_width_max) X(pcie_tx) X(pcie_rx) X(pcie_replays) X(nvlinks) X(nvlink_tx_kib) X(nvlink_rx_kib) \
    X(nvlink_tx_bytes) X(nvlink_rx_bytes) X(held_power) X(held_thermal) X(held_old_thermal) X(held_sync_boost) \
    X(held_hw_thermal) X(held_power_brake) X(remap_corrected) X(remap_uncorrected) X(remap_pending) X(remap_failed) \
    X(retired_sbe) X(retired_dbe) X(retired_pending) X(recovery) X(margin) X(t_shutdown) X(t_slowdown) X(fabric) \
    X(fabric_health) X(enc) X(dec) X(gpm_graphics) X(gpm_sm) X(gpm_occupancy) X(gpm_tensor) X(gpm_dram) X(gpm_fp64) \
    X(gpm_fp32) X(gpm_fp16) X(gpm_pcie_tx) X(gpm_pcie_rx) X(gpm_nvlink_rx) X(gpm_nvlink_tx) X(jpg) X(ofa) X(sram_threshold) \
    X(mig) X(gi) X(ci) X(gi_slices) X(numa) X(minor)
#define AS_ENUM(key) K_##key,
#define AS_NAME(key) #key,
enum { KEYS(AS_ENUM) KEY_COUNT };
static const char *const key_names[] = {KEYS(AS_NAME)};

// What a device is unless its line says otherwise; the same in the stand-in for nvidia-smi.
static const char DEFAULTS[] =
    "util=0 memutil=0 temp=35 power_mw=70000 limit_mw=700000 limit_requested_mw=700000 used_mib=0 "
    "total_mib=81559 reserved_mib=600 clk_gr=1980 clk_sm=1980 clk_mem=2619 clk_gr_max=1980 clk_sm_max=1980 "
    "clk_mem_max=2619 pstate=0 throttle=0 persistence=1 compute_mode=0 display=0 ecc_mode=1 ecc_cv=0 ecc_uv=0 ecc_ca=0 "
    "ecc_ua=0 pcie_gen=5 pcie_width=16 pcie_gen_max=5 pcie_width_max=16 mig=0 enc=0 dec=0";

typedef struct {
    enum { NONE, NUMBER, CODE } kind;
    double base, rate;
    u64 whole, span;
} Value;

typedef struct {
    u32 index, parent, lost, is_slice;
    Value values[KEY_COUNT];
    char uuid[96], name[96], capability[16];
} Device;

typedef struct { u32 gpu, pid, sm, span, mem, enc, dec; int slice; u64 bytes; char type[4]; int is_stale; } Use;
typedef struct { char function[64]; int gpu, code; u32 micros; } Fault;
typedef struct { u32 gpu; u64 type, data; int slice; } Event;

enum { MOST_DEVICES = 64, MOST_SLICES = 128, MOST_USES = 4096, MOST_FAULTS = 64, MOST_EVENTS = 64, MOST_LATER = 64 };
static Device devices[MOST_DEVICES], slices[MOST_SLICES];
static Use uses[MOST_USES];
static Fault faults[MOST_FAULTS];
static Event events[MOST_EVENTS];
static struct { double after; char line[1024]; int is_done; } later[MOST_LATER];
static int device_count, slice_count, use_count, fault_count, event_count, later_count, told, started;
static char driver[80] = "570.86.15";
static int cuda = 12080;
static struct timespec written, looked;

static double seconds(clockid_t clock, struct timespec since) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)(now.tv_sec - since.tv_sec) + (double)(now.tv_nsec - since.tv_nsec) / 1e9;
}

static Value parse(const char *text) {
    Value value = {.kind = NUMBER};
    char *end;
    if (*text == '~' || *text == '!')
        return (Value){.kind = CODE, .base = *text == '~' ? NOT_SUPPORTED : atof(text + 1)};
    value.whole = strtoull(text, &end, 0);
    if (*text == '-' || *end == '.')
        value.base = strtod(text, &end);
    else
        value.base = (double)value.whole;
    if (*end == '+')
        value.rate = atof(end + 1);
    if (*end == '%')
        value.span = strtoull(end + 1, NULL, 10);
    return value;
}

static void assign(Device *device, char *words) {
    char *name = strstr(words, "name="), *rest = NULL;
    if (name) {
        snprintf(device->name, sizeof device->name, "%s", name + 5);
        device->name[strcspn(device->name, "\n")] = 0;
        *name = 0;
    }
    for (char *word = strtok_r(words, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        char *value = strchr(word, '=');
        if (!strcmp(word, "lost"))
            device->lost = 1;
        if (!value)
            continue;
        *value++ = 0;
        if (!strcmp(word, "uuid"))
            snprintf(device->uuid, sizeof device->uuid, "%s", value);
        else if (!strcmp(word, "capability"))
            snprintf(device->capability, sizeof device->capability, "%s", value);
        for (int key = 0; key < KEY_COUNT; key++)
            if (!strcmp(word, key_names[key]))
                device->values[key] = parse(value);
    }
}

static void take_device(u32 index, char *rest) {
    char defaults[sizeof DEFAULTS];
    if (index >= MOST_DEVICES)
        return;
    Device *device = &devices[index];
    if ((int)index >= device_count) {
        device_count = (int)index + 1;
        memset(device, 0, sizeof *device);
        device->index = index;
        snprintf(device->name, sizeof device->name, "NVIDIA H100 80GB HBM3");
        snprintf(device->uuid, sizeof device->uuid, "GPU-%08x-0000-4000-8000-%012x", 0xabc0000 + index, index);
        snprintf(device->capability, sizeof device->capability, "9.0");
        memcpy(defaults, DEFAULTS, sizeof defaults);
        assign(device, defaults);
        device->values[K_minor] = (Value){.kind = NUMBER, .base = index, .whole = index};
    }
    assign(device, rest);
}

static void take_slice(u32 gpu, u32 index, char *rest) {
    if (slice_count == MOST_SLICES)
        return;
    Device *slice = &slices[slice_count++];
    memset(slice, 0, sizeof *slice);
    *slice = (Device){.index = index, .parent = gpu, .is_slice = 1};
    snprintf(slice->name, sizeof slice->name, "1g.10gb");
    snprintf(slice->uuid, sizeof slice->uuid, "MIG-%08x-%04x-5000-8000-%012x", 0xabc0000 + gpu, index, index);
    slice->values[K_gi] = parse("0");
    slice->values[K_ci] = parse("0");
    slice->values[K_gi_slices] = parse("1");
    slice->values[K_reserved_mib] = slice->values[K_bar1_used_mib] = parse("0");
    slice->values[K_bar1_total_mib] = parse("16383");
    assign(slice, rest);
}

static void take_use(char *line) {
    Use *use = &uses[use_count];
    char held[32], *rest = NULL;
    int end = 0;
    if (use_count == MOST_USES || sscanf(line, "%u %u %31s%n", &use->gpu, &use->pid, held, &end) < 3)
        return;
    *use = (Use){.gpu = use->gpu, .pid = use->pid, .slice = -1, .type = "C"};
    use->bytes = *held == '-' ? ~0ull : strtoull(held, NULL, 10) << 20;
    for (char *word = strtok_r(line + end, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value++ = 0;
        u32 number = (u32)strtoul(value, NULL, 10);
        if (!strcmp(word, "sm")) use->sm = number, use->span = strchr(value, '%') ? (u32)atoi(strchr(value, '%') + 1) : 0;
        else if (!strcmp(word, "mem")) use->mem = number;
        else if (!strcmp(word, "enc")) use->enc = number;
        else if (!strcmp(word, "dec")) use->dec = number;
        else if (!strcmp(word, "slice")) use->slice = (int)number;
        else if (!strcmp(word, "type")) snprintf(use->type, sizeof use->type, "%s", value);
    }
    use_count++;
}

static void take_fault(const char *line) {
    Fault *fault = &faults[fault_count];
    char how[32] = "";
    if (fault_count == MOST_FAULTS || sscanf(line, "%63s %31s %u", fault->function, how, &fault->micros) < 2)
        return;
    char *place = strchr(fault->function, '@');
    fault->gpu = place ? atoi(place + 1) : -1;
    if (place)
        *place = 0;
    fault->code = !strcmp(how, "hang")    ? -1
                  : !strcmp(how, "slow")  ? -2
                  : !strcmp(how, "crash") ? -3
                  : !strcmp(how, "exit")  ? -4
                                          : atoi(how);
    fault_count++;
}

static void take(char *line) {
    u32 gpu, index;
    int end = 0;
    unsigned long long type, data;
    if (sscanf(line, "gpu %u%n", &gpu, &end) == 1)
        take_device(gpu, line + end);
    else if (sscanf(line, "slice %u %u%n", &gpu, &index, &end) == 2)
        take_slice(gpu, index, line + end);
    else if (!strncmp(line, "proc ", 5))
        take_use(line + 5);
    else if (sscanf(line, "stale %u %u %u", &gpu, &index, &end) == 3 && use_count < MOST_USES)
        uses[use_count++] = (Use){.gpu = gpu, .pid = index, .sm = (u32)end, .slice = -1, .is_stale = 1};
    else if (sscanf(line, "xid %u %llu", &gpu, &data) == 2 && event_count < MOST_EVENTS) {
        const char *slice = strstr(line, "slice ");
        events[event_count++] = (Event){gpu, 8, data, slice ? atoi(slice + 6) : -1};
    }
    else if (sscanf(line, "event %u %lli %lli", &gpu, (long long *)&type, (long long *)&data) == 3 &&
             event_count < MOST_EVENTS)
        events[event_count++] = (Event){gpu, type, data, -1};
    else if (!strncmp(line, "fault ", 6))
        take_fault(line + 6);
    else if (!strncmp(line, "driver ", 7))
        sscanf(line, "driver %79s %d", driver, &cuda);
    else if (!strncmp(line, "at ", 3) && later_count < MOST_LATER &&
             sscanf(line, "at %lf %n", &later[later_count].after, &end) == 1) {
        later[later_count].is_done = 0;
        snprintf(later[later_count++].line, sizeof later[0].line, "%s", line + end);
    }
}

static void load(void) {
    const char *path = getenv("NVML_STUB_STATE");
    struct stat now;
    char line[1024];
    if (device_count && seconds(CLOCK_MONOTONIC, looked) < 0.02)
        return;
    clock_gettime(CLOCK_MONOTONIC, &looked);
    path = path ? path : "/usr/local/lib/gtop-nvml.state";
    if (stat(path, &now))
        return;
    if (now.st_mtim.tv_sec != written.tv_sec || now.st_mtim.tv_nsec != written.tv_nsec) {
        FILE *file = fopen(path, "r");
        if (!file)
            return;
        written = now.st_mtim;
        device_count = slice_count = use_count = fault_count = event_count = later_count = told = 0;
        while (fgets(line, sizeof line, file))
            take(line);
        fclose(file);
    }
    for (int i = 0; i < later_count; i++)
        if (!later[i].is_done && seconds(CLOCK_REALTIME, written) >= later[i].after) {
            later[i].is_done = 1;
            take(later[i].line);
        }
}

// Each refusal is a line of the file that NVML_STUB_REFUSALS names.
static void refused(const char *what) {
    const char *path = getenv("NVML_STUB_REFUSALS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", what);
    fclose(file);
}

static int trip(const char *function, int gpu) {
    load();
    for (int i = 0; i < fault_count; i++) {
        Fault *fault = &faults[i];
        if ((strcmp(fault->function, function) && strcmp(fault->function, "nvml")) ||
            (fault->gpu >= 0 && fault->gpu != gpu))
            continue;
        if (fault->code == -1)
            for (;;) pause();
        if (fault->code == -3)
            raise(SIGSEGV);
        if (fault->code == -4)
            _exit(3);
        if (fault->code == -2) {
            usleep(fault->micros);
            continue;
        }
        refused(function);
        return fault->code;
    }
    return SUCCESS;
}

// Another number in each tenth of a second.
static u64 wander(const Value *value) {
    struct timespec now;
    if (!value->span)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    u64 mixed = ((u64)now.tv_sec * 10 + (u64)now.tv_nsec / 100000000) * 0x9e3779b97f4a7c15ull + (u64)(size_t)value;
    return (mixed >> 32) % (value->span + 1);
}

static int number(const Device *device, int key, u64 *out) {
    const Value *value = &device->values[key];
    if (value->kind == NONE && key == K_memtemp && !device->is_slice) {
        int code = number(device, K_temp, out);
        *out += 8;
        return code;
    }
    if (value->kind == NONE)
        return NOT_SUPPORTED;
    if (value->kind == CODE)
        return (int)value->base;
    *out = value->rate || value->base != (double)value->whole
               ? (u64)(long long)(value->base + value->rate * seconds(CLOCK_REALTIME, written))
               : value->whole + wander(value);
    return SUCCESS;
}

static int number32(const Device *device, int key, u32 *out) {
    u64 value = 0;
    int code = number(device, key, &value);
    if (!code)
        *out = (u32)value;
    return code;
}

static int is_device(const Device *x) { return x >= devices && x < devices + device_count; }
static int is_slice(const Device *x) { return x >= slices && x < slices + slice_count; }

#define API __attribute__((visibility("default"))) int
static int check(const char *function, const Device *x, int may_be_slice) {
    int code = trip(function, x && is_device(x) ? (int)x->index : -1);
    if (code)
        return code;
    if (!started)
        return UNINITIALIZED;
    if (!x)
        return SUCCESS;
    if (!is_device(x) && !(may_be_slice && is_slice(x)))
        return INVALID;
    return (is_slice(x) ? devices[x->parent].lost : x->lost) ? GPU_IS_LOST : SUCCESS;
}

#define CHECK(x, may_be_slice) { int code_ = check(__func__, x, may_be_slice); if (code_) return code_; }
#define PLAIN CHECK(NULL, 0)
#define ON_ANY(x) { if (!x) return INVALID; } CHECK(x, 1)
#define ON_DEVICE(x) { if (!x) return INVALID; } CHECK(x, 0)
#define U32(function, key) API function(Device *x, u32 *out) { ON_DEVICE(x) return number32(x, K_##key, out); }

API nvmlInit_v2(void) { int code = trip("nvmlInit_v2", -1); if (!code) started++; return code; }
API nvmlInit(void) { return nvmlInit_v2(); }
API nvmlInitWithFlags(u32 flags) { (void)flags; return nvmlInit_v2(); }
API nvmlShutdown(void) { if (!started) return UNINITIALIZED; started--; return SUCCESS; }

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 17: return "The operating system has blocked the request.";
    case 18: return "Driver/library version mismatch";
    case 25: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

API nvmlSystemGetDriverVersion(char *out, u32 size) { PLAIN snprintf(out, size, "%s", driver); return SUCCESS; }
API nvmlSystemGetNVMLVersion(char *out, u32 size) {
    PLAIN snprintf(out, size, "%d.%s", cuda / 1000, driver);
    return SUCCESS;
}
API nvmlSystemGetCudaDriverVersion_v2(int *out) { PLAIN *out = cuda; return SUCCESS; }
API nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

API nvmlDeviceGetCount_v2(u32 *out) { PLAIN *out = (u32)device_count; return SUCCESS; }
API nvmlDeviceGetCount(u32 *out) { return nvmlDeviceGetCount_v2(out); }
API nvmlDeviceGetHandleByIndex_v2(u32 index, Device **out) {
    int code = trip("nvmlDeviceGetHandleByIndex_v2", (int)index);
    if (code)
        return code;
    if (!started)
        return UNINITIALIZED;
    if (index >= (u32)device_count)
        return INVALID;
    *out = &devices[index];
    return devices[index].lost ? GPU_IS_LOST : SUCCESS;
}
API nvmlDeviceGetHandleByIndex(u32 index, Device **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }
API nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    PLAIN
    for (int i = 0; i < device_count; i++)
        if (!strcmp(uuid, devices[i].uuid)) { *out = &devices[i]; return SUCCESS; }
    for (int i = 0; i < slice_count; i++)
        if (!strcmp(uuid, slices[i].uuid)) { *out = &slices[i]; return SUCCESS; }
    return NOT_FOUND;
}
static u32 bus(const Device *x) { return 0x18 + x->index * 0x11; }
API nvmlDeviceGetHandleByPciBusId_v2(const char *id, Device **out) {
    PLAIN
    for (int i = 0; i < device_count; i++) {
        char own[32];
        snprintf(own, sizeof own, "00000000:%02X:00.0", bus(&devices[i]));
        if (!strcasecmp(id, own)) { *out = &devices[i]; return SUCCESS; }
    }
    return NOT_FOUND;
}

API nvmlDeviceGetName(Device *x, char *out, u32 size) {
    ON_ANY(x)
    if (is_slice(x))
        snprintf(out, size, "%s MIG %s", devices[x->parent].name, x->name);
    else
        snprintf(out, size, "%s", x->name);
    return SUCCESS;
}
API nvmlDeviceGetUUID(Device *x, char *out, u32 size) { ON_ANY(x) snprintf(out, size, "%s", x->uuid); return SUCCESS; }
API nvmlDeviceGetSerial(Device *x, char *out, u32 size) {
    ON_DEVICE(x) snprintf(out, size, "16500230%05u", x->index);
    return SUCCESS;
}
API nvmlDeviceGetIndex(Device *x, u32 *out) { ON_ANY(x) *out = x->index; return SUCCESS; }
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
API nvmlDeviceGetPciInfo_v3(Device *x, Pci *out) {
    ON_DEVICE(x)
    *out = (Pci){.bus = bus(x), .id = 0x233010DE, .subsystem = 0x16C110DE};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", bus(x));
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", bus(x));
    return SUCCESS;
}
API nvmlDeviceGetPciInfo_v2(Device *x, Pci *out) { return nvmlDeviceGetPciInfo_v3(x, out); }
API nvmlDeviceGetPciInfo(Device *x, Pci *out) { return nvmlDeviceGetPciInfo_v3(x, out); }
API nvmlDeviceGetCudaComputeCapability(Device *x, int *major, int *minor) {
    ON_DEVICE(x)
    return sscanf(x->capability, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}
API nvmlDeviceGetArchitecture(Device *x, u32 *out) { ON_DEVICE(x) *out = (u32)atoi(x->capability); return SUCCESS; }
API nvmlDeviceGetMinorNumber(Device *x, u32 *out) { ON_DEVICE(x) return number32(x, K_minor, out); }
API nvmlDeviceGetNumaNodeId(Device *x, u32 *out) { ON_DEVICE(x) return number32(x, K_numa, out); }

API nvmlDeviceGetUtilizationRates(Device *x, u32 *out) {
    ON_DEVICE(x)
    int code = number32(x, K_util, &out[0]);
    return code ? code : number32(x, K_memutil, &out[1]);
}
static int memory(const Device *x, u64 *total, u64 *reserved, u64 *used) {
    int code = number(x, K_total_mib, total);
    if (!code)
        code = number(x, K_used_mib, used);
    if (code || number(x, K_reserved_mib, reserved))
        *reserved = 0;
    *total <<= 20, *used <<= 20, *reserved <<= 20;
    return code;
}
API nvmlDeviceGetMemoryInfo(Device *x, u64 *out) {
    u64 total = 0, reserved = 0, used = 0;
    ON_ANY(x)
    int code = memory(x, &total, &reserved, &used);
    if (!code)
        out[0] = total, out[1] = total - used - reserved, out[2] = used + reserved;
    return code;
}
API nvmlDeviceGetMemoryInfo_v2(Device *x, u64 *out) {
    u64 total = 0, reserved = 0, used = 0;
    ON_ANY(x)
    if (*(u32 *)out != 0x02000028)
        return VERSION_MISMATCH;
    int code = memory(x, &total, &reserved, &used);
    if (!code)
        out[1] = total, out[2] = reserved, out[3] = total - used - reserved, out[4] = used;
    return code;
}
API nvmlDeviceGetBAR1MemoryInfo(Device *x, u64 *out) {
    u64 total = 0, used = 0;
    ON_ANY(x)
    int code = number(x, K_bar1_total_mib, &total);
    if (!code)
        code = number(x, K_bar1_used_mib, &used);
    if (!code)
        out[0] = total << 20, out[1] = (total - used) << 20, out[2] = used << 20;
    return code;
}

API nvmlDeviceGetTemperature(Device *x, u32 sensor, u32 *out) {
    ON_DEVICE(x)
    return sensor ? INVALID : number32(x, K_temp, out);
}
API nvmlDeviceGetTemperatureV(Device *x, u32 *out) {
    ON_DEVICE(x)
    return out[0] != 0x0100000c ? VERSION_MISMATCH : number32(x, K_temp, &out[2]);
}
API nvmlDeviceGetMarginTemperature(Device *x, u32 *out) {
    ON_DEVICE(x)
    return out[0] != 0x01000008 ? VERSION_MISMATCH : number32(x, K_margin, &out[1]);
}
API nvmlDeviceGetTemperatureThreshold(Device *x, u32 which, u32 *out) {
    ON_DEVICE(x)
    return which > 1 ? NOT_SUPPORTED : number32(x, which ? K_t_slowdown : K_t_shutdown, out);
}
U32(nvmlDeviceGetPowerUsage, power_mw)
U32(nvmlDeviceGetEnforcedPowerLimit, limit_mw)
U32(nvmlDeviceGetPowerManagementLimit, limit_requested_mw)
U32(nvmlDeviceGetPowerManagementDefaultLimit, limit_default_mw)
API nvmlDeviceGetPowerManagementLimitConstraints(Device *x, u32 *least, u32 *most) {
    ON_DEVICE(x)
    int code = number32(x, K_limit_min_mw, least);
    return code ? code : number32(x, K_limit_max_mw, most);
}
API nvmlDeviceGetTotalEnergyConsumption(Device *x, u64 *out) { ON_DEVICE(x) return number(x, K_energy_mj, out); }
U32(nvmlDeviceGetFanSpeed, fan)
API nvmlDeviceGetFanSpeed_v2(Device *x, u32 fan, u32 *out) {
    ON_DEVICE(x)
    return fan ? INVALID : number32(x, K_fan, out);
}
API nvmlDeviceGetClockInfo(Device *x, u32 which, u32 *out) {
    ON_DEVICE(x)
    return which > 3 ? INVALID : number32(x, K_clk_gr + (int)which, out);
}
API nvmlDeviceGetMaxClockInfo(Device *x, u32 which, u32 *out) {
    ON_DEVICE(x)
    return which > 3 ? INVALID : number32(x, K_clk_gr_max + (int)which, out);
}
static int codec(const Device *x, int key, u32 *out, u32 *period) { *period = 167000; return number32(x, key, out); }
API nvmlDeviceGetEncoderUtilization(Device *x, u32 *out, u32 *period) { ON_DEVICE(x) return codec(x, K_enc, out, period); }
API nvmlDeviceGetDecoderUtilization(Device *x, u32 *out, u32 *period) { ON_DEVICE(x) return codec(x, K_dec, out, period); }
API nvmlDeviceGetJpgUtilization(Device *x, u32 *out, u32 *period) { ON_DEVICE(x) return codec(x, K_jpg, out, period); }
API nvmlDeviceGetOfaUtilization(Device *x, u32 *out, u32 *period) { ON_DEVICE(x) return codec(x, K_ofa, out, period); }
// As the real one: a sample of 20 ms.
API nvmlDeviceGetPcieThroughput(Device *x, u32 which, u32 *out) {
    ON_DEVICE(x) usleep(20000);
    *out = which ? 2048 : 1024;
    return SUCCESS;
}
U32(nvmlDeviceGetMaxPcieLinkGeneration, pcie_gen_max)
U32(nvmlDeviceGetMaxPcieLinkWidth, pcie_width_max)
U32(nvmlDeviceGetCurrPcieLinkGeneration, pcie_gen)
U32(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
U32(nvmlDeviceGetPerformanceState, pstate)
U32(nvmlDeviceGetPowerState, pstate)
U32(nvmlDeviceGetComputeMode, compute_mode)
U32(nvmlDeviceGetPersistenceMode, persistence)
U32(nvmlDeviceGetDisplayActive, display)
U32(nvmlDeviceGetDisplayMode, display)
API nvmlDeviceGetCurrentClocksThrottleReasons(Device *x, u64 *out) { ON_DEVICE(x) return number(x, K_throttle, out); }
API nvmlDeviceGetCurrentClocksEventReasons(Device *x, u64 *out) { ON_DEVICE(x) return number(x, K_throttle, out); }
API nvmlDeviceGetTotalEccErrors(Device *x, u32 kind, u32 since, u64 *out) {
    ON_DEVICE(x)
    return kind > 1 || since > 1 ? INVALID : number(x, K_ecc_cv + (int)kind + 2 * (int)since, out);
}
API nvmlDeviceGetRemappedRows(Device *x, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    u32 *const out[] = {corrected, uncorrected, pending, failed};
    int code = SUCCESS;
    ON_DEVICE(x)
    for (int i = 0; i < 4 && !code; i++)
        code = number32(x, K_remap_corrected + i, out[i]);
    return code;
}
API nvmlDeviceGetSramEccErrorStatus(Device *x, u32 *out) {
    ON_DEVICE(x)
    return out[0] != 0x01000068 ? VERSION_MISMATCH : number32(x, K_sram_threshold, &out[24]);
}
API nvmlDeviceGetEccMode(Device *x, u32 *now, u32 *pending) {
    ON_DEVICE(x)
    int code = number32(x, K_ecc_mode, now);
    *pending = *now;
    return code;
}
API nvmlDeviceGetMigMode(Device *x, u32 *now, u32 *pending) {
    ON_DEVICE(x)
    int code = number32(x, K_mig, now);
    *pending = *now;
    return code;
}
API nvmlDeviceGetMaxMigDeviceCount(Device *x, u32 *out) { ON_DEVICE(x) *out = 7; return SUCCESS; }
API nvmlDeviceIsMigDeviceHandle(Device *x, u32 *out) { ON_ANY(x) *out = (u32)is_slice(x); return SUCCESS; }
API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *x, Device **out) {
    ON_ANY(x)
    if (!is_slice(x))
        return INVALID;
    *out = &devices[x->parent];
    return SUCCESS;
}
API nvmlDeviceGetMigDeviceHandleByIndex(Device *x, u32 index, Device **out) {
    ON_DEVICE(x)
    for (int i = 0; i < slice_count; i++)
        if (slices[i].parent == x->index && slices[i].index == index) { *out = &slices[i]; return SUCCESS; }
    return NOT_FOUND;
}
#define OF_SLICE(function, key) API function(Device *x, u32 *out) { \
    ON_ANY(x) return is_slice(x) ? number32(x, K_##key, out) : INVALID; }
OF_SLICE(nvmlDeviceGetGpuInstanceId, gi)
OF_SLICE(nvmlDeviceGetComputeInstanceId, ci)
API nvmlDeviceGetAttributes_v2(Device *x, u32 *out) {
    u64 total = 0;
    ON_ANY(x)
    if (!is_slice(x))
        return INVALID;
    memset(out, 0, 40);
    int code = number32(x, K_gi_slices, &out[6]);
    out[7] = out[6];
    if (!code)
        code = number(x, K_total_mib, &total);
    out[8] = (u32)total;
    return code;
}

// Fabric: an array of u32 by its layout; the state is a byte.
API nvmlDeviceGetGpuFabricInfo(Device *x, u32 *out) { ON_DEVICE(x) memset(out, 0, 25); return number32(x, K_fabric, &out[6]); }
API nvmlDeviceGetGpuFabricInfoV(Device *x, u32 *out) {
    ON_DEVICE(x)
    if (out[0] != 0x02000024)
        return VERSION_MISMATCH;
    memset(out + 1, 0, 32);
    int code = number32(x, K_fabric, &out[7]);
    return code ? code : number32(x, K_fabric_health, &out[8]);
}

// Processes.
static int is_listed(const Device *x, const Use *use, char kind) {
    const u32 gpu = is_slice(x) ? x->parent : x->index;
    return !use->is_stale && use->gpu == gpu && strchr(use->type, kind) &&
           (!is_slice(x) || use->slice == (int)x->index);
}
static int list(Device *x, u32 *count, char *out, size_t size, char kind) {
    u32 found = 0;
    for (int i = 0; i < use_count; i++)
        found += (u32)is_listed(x, &uses[i], kind);
    const u32 room = *count;
    *count = found;
    if (room < found || (found && !out))
        return TOO_SMALL;
    for (int i = 0; i < use_count; i++) {
        if (!is_listed(x, &uses[i], kind))
            continue;
        const Use *use = &uses[i];
        struct { u32 pid, pad; u64 bytes; u32 gi, ci; u64 protected_bytes; } row = {use->pid, 0, use->bytes, ~0u, ~0u, 0};
        for (int k = 0; k < slice_count; k++)
            if (slices[k].parent == use->gpu && (int)slices[k].index == use->slice)
                row.gi = (u32)slices[k].values[K_gi].whole, row.ci = (u32)slices[k].values[K_ci].whole;
        memcpy(out, &row, size);
        out += size;
    }
    return SUCCESS;
}
#define LISTS(kind, letter, version, size) \
    API nvmlDeviceGet##kind##RunningProcesses##version(Device *x, u32 *count, char *out) { \
        ON_ANY(x) return list(x, count, out, size, letter); }
#define ALL_LISTS(version, size) \
    LISTS(Compute, 'C', version, size) LISTS(Graphics, 'G', version, size) LISTS(MPSCompute, 'M', version, size)
ALL_LISTS(, 16)
#if ENTRY >= 24
ALL_LISTS(_v2, 24)
ALL_LISTS(_v3, ENTRY)
#endif
#if ENTRY == 32
API nvmlDeviceGetConfComputeMemSizeInfo(Device *x, void *out) { ON_DEVICE(x) (void)out; return NOT_SUPPORTED; }
#endif

typedef struct { u32 pid; u64 stamp; u32 sm, mem, enc, dec; } Shares;
API nvmlDeviceGetProcessUtilization(Device *x, Shares *out, u32 *count, u64 since) {
    u32 found = 0;
    (void)since;
    ON_DEVICE(x)
    if (x->values[K_mig].whole)
        return NOT_SUPPORTED;
    for (int i = 0; i < use_count; i++)
        found += uses[i].gpu == x->index;
    if (!found)
        return NOT_FOUND;
    const u32 room = *count;
    *count = found;
    if (!out || room < found)
        return TOO_SMALL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const u64 stamp = (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
    for (int i = 0; i < use_count; i++)
        if (uses[i].gpu == x->index)
            *out++ = (Shares){uses[i].pid, uses[i].is_stale ? ~0ull : stamp,
                              uses[i].sm + (u32)((stamp / 100000 * 2654435761u + (u64)i * 97) >> 7) % (uses[i].span + 1),
                              uses[i].mem, uses[i].enc, uses[i].dec};
    return SUCCESS;
}

// Field values.
typedef struct {
    u32 id, scope;
    long long stamp, latency;
    u32 type;
    int code;
    union { double real; u64 whole; } value;
} Field;
static const struct { u32 id; int key; u32 type; } field_keys[] = {
    {82, K_memtemp, 1}, {83, K_energy_mj, 3}, {191, K_energy_mj, 3}, {185, K_power_avg_mw, 1}, {186, K_power_now_mw, 1},
    {74, K_held_power, 3}, {75, K_held_old_thermal, 3}, {76, K_held_sync_boost, 3}, {269, K_held_thermal, 3},
    {270, K_held_hw_thermal, 3}, {271, K_held_power_brake, 3}, {197, K_pcie_tx, 3}, {198, K_pcie_rx, 3},
    {138, K_nvlink_tx_kib, 3}, {139, K_nvlink_rx_kib, 3}, {202, K_nvlink_tx_bytes, 3}, {204, K_nvlink_rx_bytes, 3},
    {91, K_nvlinks, 1}, {94, K_pcie_replays, 1}, {142, K_remap_corrected, 1}, {143, K_remap_uncorrected, 1},
    {144, K_remap_pending, 1}, {145, K_remap_failed, 1}, {29, K_retired_sbe, 1}, {30, K_retired_dbe, 1},
    {31, K_retired_pending, 1}, {230, K_recovery, 1}};
static int is_nvlink(u32 id) { return id == 138 || id == 139 || id == 202 || id == 204; }
API nvmlDeviceGetFieldValues(Device *x, int count, Field *fields) {
    ON_DEVICE(x)
    for (int i = 0; i < count; i++) {
        Field *field = &fields[i];
        field->code = NOT_SUPPORTED;
        field->latency = 1;
        for (size_t k = 0; k < sizeof field_keys / sizeof *field_keys; k++) {
            if (field_keys[k].id != field->id)
                continue;
            field->value.whole = 0;
            field->type = field_keys[k].type;
            field->code = number(x, field_keys[k].key, &field->value.whole);
            u64 links = 1;
            if (!field->code && is_nvlink(field->id) && field->scope != ~0u && !number(x, K_nvlinks, &links) && links)
                field->value.whole /= links;
        }
        if (field->code) {
            char name[32];
            snprintf(name, sizeof name, "field %u", field->id);
            refused(name);
        }
    }
    return SUCCESS;
}
API nvmlDeviceGetNvLinkState(Device *x, u32 link, u32 *out) {
    u64 links = 0;
    ON_DEVICE(x)
    if (number(x, K_nvlinks, &links) || link >= links)
        return INVALID;
    *out = 1;
    return SUCCESS;
}

// Activity counters. A sample is the number of the device, or of the slice behind all devices.
static const struct { u32 id; int key; } metrics[] = {
    {1, K_gpm_graphics}, {2, K_gpm_sm}, {3, K_gpm_occupancy}, {5, K_gpm_tensor}, {10, K_gpm_dram}, {11, K_gpm_fp64},
    {12, K_gpm_fp32}, {13, K_gpm_fp16}, {20, K_gpm_pcie_tx}, {21, K_gpm_pcie_rx}, {60, K_gpm_nvlink_rx},
    {61, K_gpm_nvlink_tx}};
API nvmlGpmQueryDeviceSupport(Device *x, u32 *out) { ON_DEVICE(x) out[1] = x->values[K_gpm_sm].kind != NONE; return SUCCESS; }
API nvmlGpmSampleAlloc(int **out) { PLAIN *out = calloc(1, sizeof **out); return SUCCESS; }
API nvmlGpmSampleFree(int *sample) { free(sample); return SUCCESS; }
API nvmlGpmSampleGet(Device *x, int *sample) { ON_DEVICE(x) *sample = (int)x->index; return SUCCESS; }
API nvmlGpmMigSampleGet(Device *x, u32 instance, int *sample) {
    ON_DEVICE(x)
    for (int i = 0; i < slice_count; i++)
        if (slices[i].parent == x->index && slices[i].values[K_gi].whole == instance) {
            *sample = MOST_DEVICES + i;
            return SUCCESS;
        }
    return NOT_FOUND;
}
typedef struct { u32 id; int code; double value; const char *texts[3]; } Metric;
typedef struct { u32 version, count; int *first, *second; Metric metrics[]; } Metrics;
API nvmlGpmMetricsGet(Metrics *out) {
    PLAIN
    if (out->version != 1 || *out->first != *out->second)
        return INVALID;
    const int place = *out->first;
    const Device *x = place < MOST_DEVICES ? &devices[place] : &slices[place - MOST_DEVICES];
    for (u32 i = 0; i < out->count; i++) {
        out->metrics[i].code = NOT_SUPPORTED;
        for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
            const Value *value = &x->values[metrics[k].key];
            if (metrics[k].id != out->metrics[i].id || value->kind == NONE)
                continue;
            out->metrics[i].code = value->kind == CODE ? (int)value->base : SUCCESS;
            out->metrics[i].value = value->base + (double)wander(value);
        }
    }
    return SUCCESS;
}

// Events.
static u32 registered[MOST_DEVICES];
typedef struct { Device *device; u64 type, data; u32 gi, ci; } EventData;
API nvmlEventSetCreate(void **out) { PLAIN *out = calloc(1, 8); return SUCCESS; }
API nvmlEventSetFree(void *set) { free(set); memset(registered, 0, sizeof registered); return SUCCESS; }
API nvmlDeviceGetSupportedEventTypes(Device *x, u64 *out) { ON_DEVICE(x) *out = 0x9c0b; return SUCCESS; }
API nvmlDeviceRegisterEvents(Device *x, u64 mask, void *set) {
    ON_DEVICE(x)
    (void)set;
    registered[x->index] = (u32)mask;
    return SUCCESS;
}
API nvmlEventSetWait_v2(void *set, EventData *out, u32 milliseconds) {
    (void)set;
    PLAIN
    for (int i = 0; i < device_count; i++)
        if (devices[i].lost && registered[i])
            return GPU_IS_LOST;
    for (; told < event_count; told++) {
        const Event *event = &events[told];
        if (event->gpu < MOST_DEVICES && registered[event->gpu] & event->type) {
            *out = (EventData){&devices[event->gpu], event->type, event->data, ~0u, ~0u};
            for (int i = 0; i < slice_count; i++)
                if (slices[i].parent == event->gpu && (int)slices[i].index == event->slice)
                    out->gi = (u32)slices[i].values[K_gi].whole, out->ci = (u32)slices[i].values[K_ci].whole;
            told++;
            return SUCCESS;
        }
    }
    usleep(milliseconds * 1000);
    return TIMEOUT;
}

// What clients look for and can do without.
API nvmlDeviceGetDriverModel(Device *x, u32 *now, u32 *pending) { ON_DEVICE(x) (void)now, (void)pending; return NOT_SUPPORTED; }
API nvmlDeviceGetDriverModel_v2(Device *x, u32 *now, u32 *pending) { return nvmlDeviceGetDriverModel(x, now, pending); }
API nvmlDeviceGetBusType(Device *x, u32 *out) { ON_DEVICE(x) *out = 2; return SUCCESS; }
