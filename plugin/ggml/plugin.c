/*
 * The plug-in itself: what a host calls when it loads it, and what stands in the place of the CPU
 * backend's graph_compute afterwards.
 *
 * A host loads it because GGML_BACKEND_PATH names it, and calls ggml_backend_init. Programs that
 * load no backends can be given it by LD_PRELOAD: a constructor then does the same, or, where ggml
 * itself is loaded later, as by bindings of other languages, the function that libllama makes its
 * CPU backend by.
 *
 * Nothing is different in silence. Settings that are not understood, and attention that a policy
 * applies to but which cannot be taken over, make the host's computations fail with a message; a
 * host that is not understood is left as it is, with a message. At exit one line tells how many
 * operations were handled, and others of layers and heads in the settings that no model had.
 */
#define _GNU_SOURCE
#include "hook.h"
#include "operation.h"
#include "places.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static struct {
    pthread_mutex_t lock; /* for what follows, up to the counts */
    bool is_attached, has_tried, is_refused, is_preloaded;
    run *spare;                                            /* runs that no graph uses */
    bool has_told_left, has_told_refused, has_told_memory; /* each is said once */
    host host;
    settings settings;
    recording *recording;
    atomic_ullong handled, sharpened, left;
    places places;
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether this is the first time that something is to be told. */
static bool is_first(bool *has_told) {
    pthread_mutex_lock(&plugin.lock);
    bool first = !*has_told;
    *has_told = true;
    pthread_mutex_unlock(&plugin.lock);
    return first;
}

static int no_memory(void) {
    if (is_first(&plugin.has_told_memory))
        message_print("there is no memory for attention; the host is told so");
    return HOST_NO_MEMORY;
}

/* ---- runs ---- */

static run *take_run(void) {
    pthread_mutex_lock(&plugin.lock);
    run *r = plugin.spare;
    if (r)
        plugin.spare = r->next;
    pthread_mutex_unlock(&plugin.lock);
    if (!r && (r = calloc(1, sizeof *r))) {
        r->host = &plugin.host;
        r->settings = &plugin.settings;
    }
    if (r) {
        r->count = r->mask_count = 0;
        atomic_store(&r->has_failed, false);
    }
    return r;
}

static void give_back(run *r) {
    pthread_mutex_lock(&plugin.lock);
    r->next = plugin.spare;
    plugin.spare = r;
    pthread_mutex_unlock(&plugin.lock);
}

static size_t count_attention(host_graph *graph, int nodes) {
    size_t count = 0;
    for (int i = 0; i < nodes; i++)
        count += recognise_attention(&plugin.host, plugin.host.graph_node(graph, i)) >= 0;
    return count;
}

static bool make_room(run *r, size_t count) {
    if (count <= r->room)
        return true;
    free(r->operations);
    r->operations = aligned_alloc(_Alignof(operation), count * sizeof(operation));
    r->room = r->operations ? count : 0;
    return r->operations != NULL;
}

/* An operation that stays the host's own: fine for plain softmax, which it is, and for nothing
 * else. */
static bool leave(const operation *o, const message *why) {
    bool may_stay = o->policies && o->policies->is_softmax;
    if (may_stay)
        atomic_fetch_add(&plugin.left, 1);
    if (!may_stay && is_first(&plugin.has_told_refused))
        message_print("layer %d, %s: %s; the policy cannot be applied, nothing is computed",
                      o->layer, o->node->name, why->text);
    if (may_stay && (plugin.settings.verbose || plugin.recording) &&
        is_first(&plugin.has_told_left))
        message_print("layer %d, %s: %s; it is left to the host", o->layer, o->node->name,
                      why->text);
    return may_stay;
}

/* Describes all attention of a graph; false: it must not be computed. */
static bool describe_graph(run *r, host_graph *graph, int nodes) {
    message why = {""};
    for (int i = 0; i < nodes; i++) {
        host_tensor *node = plugin.host.graph_node(graph, i);
        if (recognise_attention(&plugin.host, node) < 0)
            continue;
        operation *o = &r->operations[r->count];
        bool is_described = operation_describe(o, r, node, &why);
        if (o->policies)
            places_see(&plugin.places, (unsigned)o->layer, o->policies->heads);
        if (is_described)
            r->count++;
        else if (!leave(o, &why))
            return false;
    }
    return true;
}

/* ---- recording ---- */

static size_t rows_of(const operation *o) {
    return o->attention.batch * o->attention.heads * o->attention.queries;
}

static size_t recorded_of(const operation *o) {
    return o->attention.batch * o->attention.heads *
           recorded_count(o->attention.queries,
                          settings_step(&plugin.settings, o->attention.queries));
}

/* Gives every operation room for its statistics, until the graph is done. */
static bool prepare_recording(run *r) {
    size_t bytes = 0;
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        bytes += (rows_of(o) + recorded_of(o)) * sizeof(whet_stats);
        bytes += (recorded_of(o) * sizeof(float) + 15) / 16 * 16;
    }
    if (bytes > r->record_bytes) {
        free(r->record_memory);
        r->record_memory = malloc(bytes);
        r->record_bytes = r->record_memory ? bytes : 0;
    }
    if (r->count > r->recorded_room) {
        free(r->recorded);
        r->recorded = calloc(r->count, sizeof *r->recorded);
        r->recorded_room = r->recorded ? r->count : 0;
    }
    if (bytes > r->record_bytes || r->count > r->recorded_room)
        return false;
    char *at = r->record_memory;
    for (size_t i = 0; i < r->count; i++) {
        operation *o = &r->operations[i];
        o->stats = (whet_stats *)(void *)at;
        o->spread_stats = o->stats + rows_of(o);
        o->spread = (float *)(void *)(o->spread_stats + recorded_of(o));
        at = (char *)o->spread + (recorded_of(o) * sizeof(float) + 15) / 16 * 16;
    }
    return true;
}

static size_t tokens_of(const operation *o) { return o->attention.batch * o->attention.queries; }

/* The positions are those of the first operation's tokens; all others have the same, or none. */
static void write_recording(run *r, const int32_t *positions) {
    size_t count = 0, tokens = tokens_of(&r->operations[0]);
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        if (atomic_load(&o->ready) > 0)
            r->recorded[count++] = (recorded_rows){
                .layer = o->layer,
                .streams = o->attention.batch,
                .heads = o->attention.heads,
                .queries = o->attention.queries,
                .step = settings_step(&plugin.settings, o->attention.queries),
                .stats = o->stats,
                .spread = o->spread,
                .positions = tokens_of(o) == tokens ? positions : NULL,
            };
    }
    if (count)
        recording_write(plugin.recording, r->recorded, count);
}

/* A copy: the host may use the input's memory again before the graph is done. */
static int32_t *copy_positions(host_graph *graph, int nodes, const run *r) {
    size_t tokens = tokens_of(&r->operations[0]);
    const int32_t *positions = recognise_positions(&plugin.host, graph, nodes, tokens);
    int32_t *copy = positions && tokens ? malloc(tokens * sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, positions, tokens * sizeof *copy);
    return copy;
}

/* ---- computing a graph ---- */

static void count_handled(const run *r) {
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        if (atomic_load(&o->ready) <= 0)
            continue; /* the host did not compute this node */
        atomic_fetch_add(&plugin.handled, 1);
        if (!o->policies->is_softmax)
            atomic_fetch_add(&plugin.sharpened, 1);
    }
}

static int compute_replaced(host_backend *backend, host_graph *graph, int nodes, run *r) {
    int32_t *positions = NULL;
    if (plugin.recording) {
        if (!prepare_recording(r))
            return no_memory();
        positions = copy_positions(graph, nodes, r);
    }
    for (size_t i = 0; i < r->count; i++)
        operation_replace(&r->operations[i]);
    int status = plugin.host.compute(backend, graph);
    for (size_t i = 0; i < r->count; i++)
        operation_restore(&r->operations[i]);
    if (status == HOST_SUCCESS && atomic_load(&r->has_failed))
        status = no_memory();
    count_handled(r);
    if (plugin.recording && status == HOST_SUCCESS)
        write_recording(r, positions);
    free(positions);
    return status;
}

static int compute_graph(host_backend *backend, host_graph *graph) {
    if (plugin.is_refused)
        return HOST_FAILED;
    int nodes = plugin.host.graph_size(graph);
    size_t count = count_attention(graph, nodes);
    if (count == 0)
        return plugin.host.compute(backend, graph);
    run *r = take_run();
    if (!r || !make_room(r, count)) {
        if (r)
            give_back(r);
        return no_memory();
    }
    int status = HOST_FAILED;
    if (describe_graph(r, graph, nodes))
        status = r->count ? compute_replaced(backend, graph, nodes, r)
                          : plugin.host.compute(backend, graph);
    give_back(r);
    return status;
}

/* ---- starting and ending ---- */

/* Only once the host is known to be of use: what the file held is lost by it. */
static bool open_recording(message *why) {
    if (!plugin.settings.stats_path)
        return true;
    plugin.recording = recording_open(plugin.settings.stats_path);
    return plugin.recording ||
           message_set(why, "WHET_STATS=%.200s: %s", plugin.settings.stats_path, strerror(errno));
}

static void refuse(const message *why) {
    plugin.is_refused = true;
    message_print("%s; nothing is computed until this is mended", why->text);
}

static void tell_settings(void) {
    char name[256];
    whet_policy_name(&plugin.settings.policy, name, sizeof name);
    message_print("libwhet %s (%s) in a ggml of the layout %s; policy %s, %zu rules",
                  whet_version(), whet_isa(), host_layout_name(plugin.host.layout), name,
                  plugin.settings.rule_count);
}

static void attach(const void *caller) {
    message why = {""};
    if (!plugin.has_tried && !settings_load(&plugin.settings, &why))
        refuse(&why);
    plugin.has_tried = true;
    if (!host_find(&plugin.host, caller, why.text, sizeof why.text) ||
        !hook_attach(&plugin.host, compute_graph, &why)) {
        message_print("%s; its attention is left as it is", why.text);
        return;
    }
    if (!plugin.is_refused && !open_recording(&why))
        refuse(&why);
    plugin.is_attached = true;
    hook_start();
    if (plugin.settings.verbose && !plugin.is_refused)
        tell_settings();
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

/* Once is enough here: a host that was refused was told of. */
static void attach_if_untried(const void *caller) {
    pthread_mutex_lock(&plugin.lock);
    if (!plugin.has_tried)
        attach(caller);
    pthread_mutex_unlock(&plugin.lock);
}

/* Only LD_PRELOAD brings this before the host's own of the same name, which does the work. */
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

/* Whether a list of libraries, between colons or spaces, has one of this name, in any folder. */
static bool list_has(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at++)
        if ((at == list || strchr(":/ ", at[-1])) && (!at[length] || strchr(": ", at[length])))
            return true;
    return false;
}

/* A program that loads backends later, or all of ggml, is told to load this one, too. */
static void ask_to_be_loaded(const char *path) {
    char *whole = realpath(path, NULL);
    setenv("GGML_BACKEND_PATH", whole ? whole : path, 0);
    free(whole);
}

/* Under LD_PRELOAD. A program with its backends linked in has its CPU device already. */
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

static void tell_line(const char *line) { message_print("%s", line); }

/* Nothing is freed: threads of the host may still be at work. */
__attribute__((destructor)) static void end(void) {
    if (!plugin.has_tried && !plugin.is_preloaded)
        return;
    unsigned long long handled = atomic_load(&plugin.handled), left = atomic_load(&plugin.left);
    char recorded[64] = "", others[64] = "";
    if (plugin.recording)
        snprintf(recorded, sizeof recorded, ", %llu rows recorded",
                 (unsigned long long)recording_lines(plugin.recording));
    if (left)
        snprintf(others, sizeof others, ", %llu left to the host", left);
    places_tell(&plugin.places, &plugin.settings, tell_line);
    message_print("%llu attention operations handled, %llu of them with a policy%s%s%s%s", handled,
                  atomic_load(&plugin.sharpened), others, recorded,
                  handled ? "" : ": nothing here went through whet",
                  plugin.has_tried ? "" : "; no ggml was seen, or it is linked in statically");
}
