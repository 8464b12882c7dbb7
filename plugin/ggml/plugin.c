/*
 * The plug-in's entry points: what a host calls when it loads the plug-in, and what is printed at
 * the end.
 *
 * A host loads the plug-in because GGML_BACKEND_PATH names it, and calls ggml_backend_init.
 * Programs that load no backends can get it by LD_PRELOAD: a constructor then does the same. Where
 * ggml itself is loaded later, as by bindings of other languages, the function with which libllama
 * creates its CPU backend does.
 *
 * Nothing is ignored silently. Settings that are not understood, and attention to which a policy
 * applies but which the plug-in cannot handle, make the host's computations fail with a message. A
 * host that is not supported is left unchanged, with a message. At exit one line reports how many
 * operations were handled, and further lines name layers and heads in the settings that no model
 * had.
 */
#define _GNU_SOURCE
#include "graph.h"
#include "hook.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static struct {
    pthread_mutex_t lock;
    bool is_attached, has_tried, is_refused, is_preloaded;
    host host;
    settings settings;
    recording *recording;
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- attaching ---- */

/* Opened only once the host is known to be supported, since opening truncates the file. */
static bool open_recording(message *why) {
    if (!plugin.settings.stats_path)
        return true;
    plugin.recording =
        recording_open(plugin.settings.stats_path, settings_has_details(&plugin.settings));
    return plugin.recording ||
           message_set(why, "WHET_STATS=%.200s: %s", plugin.settings.stats_path, strerror(errno));
}

static void refuse(const message *why) {
    plugin.is_refused = true;
    graph_refuse();
    message_print("%s; refusing to compute until this is fixed", why->text);
}

static void print_settings(void) {
    char name[256];
    whet_policy_name(&plugin.settings.config.policy, name, sizeof name);
    message_print("libwhet %s (%s), ggml layout %s, policy %s, %zu rules", whet_version(),
                  whet_isa(), host_layout_name(plugin.host.layout), name,
                  plugin.settings.config.rule_count);
}

static bool hook_host(const void *caller, message *why) {
    host_reason reason;
    if (!host_find(&plugin.host, caller, &reason))
        return message_set(why, "%s", reason.text);
    return hook_attach(&plugin.host, graph_compute, why);
}

static void attach(const void *caller) {
    message why = {""};
    if (!plugin.has_tried && !settings_load(&plugin.settings, &why))
        refuse(&why);
    plugin.has_tried = true;
    if (!hook_host(caller, &why)) {
        char version[128];
        host_version(&plugin.host, version, sizeof version);
        message_print("%s%s; leaving its attention unchanged", why.text, version);
        return;
    }
    if (!plugin.is_refused && !open_recording(&why))
        refuse(&why);
    plugin.is_attached = true;
    graph_start(&plugin.host, &plugin.settings, plugin.recording);
    hook_start();
    if (plugin.settings.verbose && !plugin.is_refused)
        print_settings();
}

/* A host may load its backends more than once, and its CPU backend after this one. */
static bool attach_once(const void *caller) {
    pthread_mutex_lock(&plugin.lock);
    if (!plugin.is_attached)
        attach(caller);
    bool is_attached = plugin.is_attached;
    pthread_mutex_unlock(&plugin.lock);
    return is_attached;
}

/* ---- loaded as a backend without devices ---- */

static const char *get_name(host_registration *registration) {
    (void)registration;
    return "whet";
}

static size_t get_device_count(host_registration *registration) {
    (void)registration;
    return 0;
}

static host_device *get_device(host_registration *registration, size_t index) {
    (void)registration;
    (void)index;
    return NULL;
}

static void *get_proc_address(host_registration *registration, const char *name) {
    (void)registration;
    (void)name;
    return NULL;
}

EXPORTED host_registration *ggml_backend_init(void);
EXPORTED host_registration *ggml_backend_init(void) {
    static host_registration registration = {
        .get_name = get_name,
        .get_device_count = get_device_count,
        .get_device = get_device,
        .get_proc_address = get_proc_address,
    };
    if (!attach_once(__builtin_return_address(0)))
        return NULL;
    registration.api_version = plugin.host.api_version;
    return &registration;
}

/* ---- loaded by LD_PRELOAD ---- */

/* Once is enough here: an unsupported host has been reported. */
static void attach_if_untried(const void *caller) {
    pthread_mutex_lock(&plugin.lock);
    if (!plugin.has_tried)
        attach(caller);
    pthread_mutex_unlock(&plugin.lock);
}

/* Only with LD_PRELOAD does this come before the host's own function of that name, which does the
 * work. */
typedef host_backend *(*init_by_type_function)(int type, const char *params);
EXPORTED host_backend *ggml_backend_init_by_type(int type, const char *params);
EXPORTED host_backend *ggml_backend_init_by_type(int type, const char *params) {
    init_by_type_function here = ggml_backend_init_by_type, own;
    void *function;
    memcpy(&function, &here, sizeof function);
    function = host_own_function(__builtin_return_address(0), HOST_INIT_BY_TYPE, function);
    if (!function)
        return NULL;
    attach_if_untried(function);
    memcpy(&own, &function, sizeof own);
    return own(type, params);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether a list of libraries, separated by colons or spaces, has one of this name, in any folder.
 */
static bool list_has(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
        if ((at == list || strchr(":/ ", at[-1])) && (!at[length] || strchr(": ", at[length])))
            return true;
    return false;
}

/* Makes a program that loads backends, or all of ggml, later load this one too. */
static void ask_to_be_loaded(const char *path) {
    char *whole = realpath(path, NULL);
    setenv("GGML_BACKEND_PATH", whole ? whole : path, 0);
    free(whole);
}

/* For LD_PRELOAD. A program with its backends linked in already has its CPU device. */
__attribute__((constructor)) static void start(void) {
    Dl_info self;
    const char *preloaded = getenv("LD_PRELOAD");
    if (!preloaded || !dladdr(&plugin, &self) || !self.dli_fname ||
        !list_has(preloaded, base_name(self.dli_fname)))
        return;
    plugin.is_preloaded = true;
    ask_to_be_loaded(self.dli_fname);
    const void *ggml = host_linked_in();
    if (ggml)
        attach_once(ggml);
}

/* ---- ending ---- */

static void print_line(const char *line) { message_print("%s", line); }

/* Frees nothing: threads of the host may still be working. */
__attribute__((destructor)) static void end(void) {
    if (!plugin.has_tried && !plugin.is_preloaded)
        return;
    graph_counts counts = graph_count();
    char recorded[64] = "", others[64] = "";
    if (plugin.recording)
        snprintf(recorded, sizeof recorded, ", %llu rows recorded",
                 (unsigned long long)recording_lines(plugin.recording));
    if (counts.left)
        snprintf(others, sizeof others, ", %llu left to llama.cpp", counts.left);
    graph_report_missing(print_line);
    message_print("%llu attention operations handled, %llu of them with a policy%s%s%s%s",
                  counts.handled, counts.with_policy, others, recorded,
                  counts.handled ? "" : ": whet computed nothing",
                  plugin.has_tried ? "" : "; no ggml found (is it linked statically?)");
}
