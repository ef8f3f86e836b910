/* libcuda.so.1 with the devices of the NVML stub in the order of CUDA_STUB_ORDER, such as 1,0; CUDA_VISIBLE_DEVICES is ignored. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int order[16], count;

int cuInit(unsigned flags) {
    const char *text = getenv("CUDA_STUB_ORDER");
    if (flags || !text) return 100; /* CUDA_ERROR_NO_DEVICE */
    for (count = 0; text && count < 16; count++) {
        order[count] = atoi(text);
        text = strchr(text, ',');
        if (text) text++;
    }
    return 0;
}

int cuDeviceGetCount(int *result) {
    *result = count;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= count) return 101; /* CUDA_ERROR_INVALID_DEVICE */
    *device = ordinal;
    return 0;
}

/* GPU-0abc0001-0000-4000-8000-000000000001 is device 1. */
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[0] = 0x0a, uuid[1] = 0xbc, uuid[3] = order[device], uuid[6] = 0x40, uuid[8] = 0x80, uuid[15] = order[device];
    return 0;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

int cuGetErrorString(int error, const char **text) {
    *text = error ? "error" : "no error";
    return 0;
}

int cuGetErrorName(int error, const char **text) { return cuGetErrorString(error, text); }
