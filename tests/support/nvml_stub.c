/* Which answers would NVIDIA's driver give? Those of a recorded tree, $NVML_STUB_TREE, by the symbols and
 * structures that NVIDIA publishes in nvml.h: a stand-in for libnvidia-ml.so.1 where there is no GPU. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { MOST = 64, LENGTH = 4096 };

typedef struct { char folder[LENGTH]; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Utilization;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} Process;
typedef struct {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil, memUtil, encUtil, decUtil;
} ProcessSample;

static Device devices[MOST];
static int known;

static Device *device(const char *folder) {
    for (int at = 0; at < known; at++)
        if (!strcmp(devices[at].folder, folder)) return &devices[at];
    if (known == MOST) abort();
    strcpy(devices[known].folder, folder);
    return &devices[known++];
}

static int exists(const char *folder) {
    DIR *opened = opendir(folder);
    if (opened) closedir(opened);
    return opened != NULL;
}

/* Read a device's answer; returns NVML's error where there is none. */
static int answer(const Device *of, const char *function, char *text) {
    char path[2 * LENGTH];
    int error;
    snprintf(path, sizeof path, "%s/%s", of->folder, function);
    FILE *file = fopen(path, "r");
    if (!file) return exists(of->folder) ? NOT_SUPPORTED : GPU_IS_LOST;
    text[fread(text, 1, LENGTH - 1, file)] = 0;
    fclose(file);
    return sscanf(text, "error %d", &error) == 1 ? error : SUCCESS;
}

static int number(const Device *of, const char *function, unsigned long long *value) {
    char text[LENGTH];
    int error = answer(of, function, text);
    if (!error) *value = strtoull(text, NULL, 0);
    return error;
}

static int small(const Device *of, const char *function, unsigned int *value) {
    unsigned long long wide = 0;
    int error = number(of, function, &wide);
    *value = (unsigned int)wide;
    return error;
}

static int string(const Device *of, const char *function, char *value, unsigned int length) {
    char text[LENGTH];
    int error = answer(of, function, text);
    if (error) return error;
    text[strcspn(text, "\n")] = 0;
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(value, text);
    return SUCCESS;
}

static const char *after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? found + strlen(name) : "";
}

int nvmlInitWithFlags(unsigned int flags) {
    char text[LENGTH];
    Device root;
    (void)flags;
    strcpy(root.folder, getenv("NVML_STUB_TREE"));
    int error = answer(&root, "nvmlInit", text);
    return error == NOT_SUPPORTED ? SUCCESS : error;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    static char text[64];
    snprintf(text, sizeof text, "the stub's error %d", error);
    return text;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **found) {
    char folder[LENGTH];
    snprintf(folder, sizeof folder, "%s/gpu-%u", getenv("NVML_STUB_TREE"), index);
    if (!exists(folder)) return INVALID_ARGUMENT;
    *found = device(folder);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    Device *found;
    for (*count = 0; nvmlDeviceGetHandleByIndex_v2(*count, &found) == SUCCESS; ++*count);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *of, char *uuid, unsigned int length) {
    return string(of, "nvmlDeviceGetUUID", uuid, length);
}

int nvmlDeviceGetName(Device *of, char *name, unsigned int length) {
    return string(of, "nvmlDeviceGetName", name, length);
}

int nvmlDeviceGetTotalEnergyConsumption(Device *of, unsigned long long *millijoules) {
    return number(of, "nvmlDeviceGetTotalEnergyConsumption", millijoules);
}

int nvmlDeviceGetPowerUsage(Device *of, unsigned int *milliwatts) {
    return small(of, "nvmlDeviceGetPowerUsage", milliwatts);
}

int nvmlDeviceGetClockInfo(Device *of, int type, unsigned int *megahertz) {
    return type == 1 ? small(of, "nvmlDeviceGetClockInfo", megahertz) : INVALID_ARGUMENT;
}

int nvmlDeviceGetTemperature(Device *of, int sensor, unsigned int *degrees) {
    return sensor == 0 ? small(of, "nvmlDeviceGetTemperature", degrees) : INVALID_ARGUMENT;
}

/* As a driver of before 2023: it has the reasons by their old name alone. */
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *of, unsigned long long *reasons) {
    return number(of, "nvmlDeviceGetCurrentClocksEventReasons", reasons);
}

int nvmlDeviceGetUtilizationRates(Device *of, Utilization *rates) {
    char text[LENGTH];
    int error = answer(of, "nvmlDeviceGetUtilizationRates", text);
    if (error) return error;
    rates->gpu = strtoul(after(text, "gpu "), NULL, 10);
    rates->memory = strtoul(after(text, "memory "), NULL, 10);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device *of, Memory *memory) {
    char text[LENGTH];
    int error = answer(of, "nvmlDeviceGetMemoryInfo", text);
    if (error) return error;
    memory->total = strtoull(after(text, "total "), NULL, 10);
    memory->free = strtoull(after(text, "free "), NULL, 10);
    memory->used = strtoull(after(text, "used "), NULL, 10);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Device *of, unsigned int *current, unsigned int *pending) {
    char text[LENGTH];
    int error = answer(of, "nvmlDeviceGetMigMode", text);
    if (error) return error;
    return sscanf(text, "%u %u", current, pending) == 2 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *of, unsigned int *count) {
    (void)of;
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *of, unsigned int index, Device **found) {
    char folder[2 * LENGTH];
    snprintf(folder, sizeof folder, "%s/mig-%u", of->folder, index);
    if (!exists(folder)) return NOT_FOUND;
    *found = device(folder);
    return SUCCESS;
}

static int processes(const Device *of, const char *function, unsigned int *count, Process *found) {
    char text[LENGTH];
    unsigned int room = *count;
    int error = answer(of, function, text);
    if (error) return error;
    *count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), ++*count) {
        if (*count >= room) continue;
        Process one = {0};
        sscanf(line, "%u %llu", &one.pid, &one.usedGpuMemory);
        one.gpuInstanceId = one.computeInstanceId = 0xFFFFFFFF;
        found[*count] = one;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *of, unsigned int *count, Process *found) {
    return processes(of, "nvmlDeviceGetComputeRunningProcesses", count, found);
}

/* As a driver of before 2022: graphics processes by the second version alone. */
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device *of, unsigned int *count, Process *found) {
    return processes(of, "nvmlDeviceGetGraphicsRunningProcesses", count, found);
}

int nvmlDeviceGetProcessUtilization(
    Device *of, ProcessSample *found, unsigned int *count, unsigned long long since) {
    char text[LENGTH];
    unsigned int room = found ? *count : 0;
    int error = answer(of, "nvmlDeviceGetProcessUtilization", text);
    if (error) return error;
    *count = 0;
    if (!strtok(text, "\n")) return SUCCESS;
    error = answer(of, "nvmlDeviceGetProcessUtilization", text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        ProcessSample one = {0};
        sscanf(line, "%u %llu %u %u %u %u", &one.pid, &one.timeStamp, &one.smUtil, &one.memUtil,
               &one.encUtil, &one.decUtil);
        if (one.timeStamp <= since) continue;
        if (*count < room) found[*count] = one;
        ++*count;
    }
    if (!*count) return NOT_FOUND;
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
