/*
 * Seeds are tasks of the executor; each runs its own trainer, whose tiles go to
 * the same executor and use the remaining threads. A lock protects what they
 * share: the progress line and the first error.
 */
#include "retrieval/train.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/manifest.h"
#include "base/progress.h"
#include "base/signals.h"
#include "nn/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "retrieval train"; /* in manifests */
static const char seeds_key[] = "seeds";

typedef struct shared_state {
    const nn_engine *engine;
    const retrieval_run *run;
    retrieval_head *heads;
    pthread_mutex_t lock;
    lab_progress progress;
    uint64_t done; /* steps of all seeds */
    lab_error *error;
    atomic_bool stop;
} shared_state;

/* One seed in training. */
typedef struct seed_run {
    shared_state *shared;
    uint64_t seed;
    retrieval_trainer *trainer;
    nn_files files;
    double began;          /* when this run would have begun without interruptions */
    double loss, accuracy; /* sums since the last line of the log */
    uint64_t summed;
    double shown_loss, shown_accuracy; /* smoothed, for the progress line */
    uint64_t uncounted;                /* steps not yet added to the shared count */
    const lab_ranks *ranks;            /* that train this seed together, or NULL */
} seed_run;

static void note_failure(shared_state *shared, const lab_error *error) {
    pthread_mutex_lock(&shared->lock);
    lab_fail(shared->error, error->kind, "%s", error->text);
    pthread_mutex_unlock(&shared->lock);
    atomic_store(&shared->stop, true);
}

static void show_progress(seed_run *own) {
    shared_state *shared = own->shared;
    const retrieval_run *run = shared->run;
    pthread_mutex_lock(&shared->lock);
    shared->done += own->uncounted;
    own->uncounted = 0;
    if (lab_progress_is_due(&shared->progress)) {
        double seconds = lab_now() - shared->progress.began;
        double rate = (double)(shared->done - shared->progress.start) / (seconds > 0 ? seconds : 1);
        if (run->seed_count > 1)
            lab_progress_show(&shared->progress, shared->done,
                              "seed %llu: loss %.4f, accuracy %.1f %%, %.0f steps/s",
                              (unsigned long long)own->seed, own->shown_loss,
                              100 * own->shown_accuracy, rate);
        else
            lab_progress_show(&shared->progress, shared->done,
                              "step %llu: loss %.4f, accuracy %.1f %%, %.0f steps/s",
                              (unsigned long long)retrieval_trainer_done(own->trainer),
                              own->shown_loss, 100 * own->shown_accuracy, rate);
    }
    pthread_mutex_unlock(&shared->lock);
}

static bool write_log(seed_run *own, lab_error *error) {
    uint64_t step = retrieval_trainer_done(own->trainer);
    double count = (double)own->summed;
    bool is_written = nn_files_log(
        &own->files,
        json_pack("{s:I, s:f, s:f, s:f}", "step", (json_int_t)step, "loss", own->loss / count,
                  "accuracy", own->accuracy / count, "seconds", lab_now() - own->began),
        error);
    own->loss = own->accuracy = 0;
    own->summed = 0;
    return is_written;
}

/* Saves a checkpoint together with the pending sums of the log. */
static bool save(seed_run *own, lab_error *error) {
    nn_log_sums *sums = retrieval_trainer_log_sums(own->trainer);
    *sums = (nn_log_sums){.count = 0};
    if (own->files.log && own->summed > 0)
        *sums = (nn_log_sums){.count = 3,
                              .values = {own->loss, own->accuracy, (double)own->summed},
                              .seconds = lab_now() - own->began};
    return retrieval_trainer_save(own->trainer, own->files.checkpoint, error);
}

static void take_sums(seed_run *own) {
    const nn_log_sums *sums = retrieval_trainer_log_sums(own->trainer);
    double seconds = own->files.seconds;
    if (nn_log_sums_are_good(sums, 3)) {
        own->loss = sums->values[0];
        own->accuracy = sums->values[1];
        own->summed = (uint64_t)sums->values[2];
        seconds = sums->seconds;
    }
    own->began = lab_now() - seconds;
}

static bool take_step(seed_run *own, lab_error *error) {
    const retrieval_run *run = own->shared->run;
    enum { SHOW_EVERY = 16 };
    retrieval_step result;
    if (!retrieval_trainer_step(own->trainer, &result, error))
        return false;
    uint64_t step = retrieval_trainer_done(own->trainer);
    own->loss += result.loss;
    own->accuracy += result.accuracy;
    own->summed++;
    own->uncounted++;
    double share = own->shown_loss == 0 ? 1 : 0.01;
    own->shown_loss += share * (result.loss - own->shown_loss);
    own->shown_accuracy += share * (result.accuracy - own->shown_accuracy);
    bool is_logged = nn_is_multiple(step, run->folder.log_interval) || step == 1 ||
                     step == run->config.steps; /* so that short runs have a log, too */
    if (own->files.log && is_logged && !write_log(own, error))
        return false;
    if (nn_files_are_due(&own->files, &run->folder, step, run->config.steps) && !save(own, error))
        return false;
    if (nn_is_multiple(step, SHOW_EVERY))
        show_progress(own);
    return true;
}

/* Ranks that train a seed together ask each other before every step, also after an error of one. */
static bool train_seed(seed_run *own, lab_error *error) {
    const uint64_t steps = own->shared->run->config.steps;
    bool is_good = true;
    while (!lab_ranks_any(own->ranks, !is_good || lab_interrupted()) &&
           !atomic_load(&own->shared->stop) && retrieval_trainer_done(own->trainer) < steps)
        is_good = take_step(own, error);
    show_progress(own);
    is_good = is_good && (!own->files.checkpoint || save(own, error));
    return lab_ranks_agree(own->ranks, is_good, error);
}

static char *checkpoint_path(const retrieval_run *run, uint64_t seed) {
    return lab_path(run->folder.path, "seed-%llu.ckpt", (unsigned long long)seed);
}

/* Finds where to resume, and opens the log there. */
static bool open_files(seed_run *own, lab_error *error) {
    const nn_run_folder *folder = &own->shared->run->folder;
    char checkpoint[40], log_name[40];
    if (!folder->path)
        return true;
    snprintf(checkpoint, sizeof checkpoint, "seed-%llu.ckpt", (unsigned long long)own->seed);
    snprintf(log_name, sizeof log_name, "seed-%llu.jsonl", (unsigned long long)own->seed);
    return nn_files_name(&own->files, folder, checkpoint, log_name, error) &&
           (!lab_file_exists(own->files.checkpoint) ||
            retrieval_trainer_restore(own->trainer, own->files.checkpoint, error)) &&
           nn_files_open_log(&own->files, folder, retrieval_trainer_done(own->trainer), error);
}

static bool run_seed(seed_run *own, retrieval_head *head, lab_error *error) {
    shared_state *shared = own->shared;
    own->trainer = retrieval_trainer_create(shared->engine, &shared->run->config, own->seed,
                                            shared->run->executor, error);
    bool is_open = own->trainer && (!lab_is_first(own->ranks) || open_files(own, error));
    if (!lab_ranks_agree(own->ranks, is_open, error))
        return false;
    if (own->ranks)
        retrieval_trainer_join(own->trainer, own->ranks);
    take_sums(own);
    uint64_t before = retrieval_trainer_done(own->trainer);
    pthread_mutex_lock(&shared->lock);
    shared->done += before;
    shared->progress.start += before;
    pthread_mutex_unlock(&shared->lock);
    return train_seed(own, error) && (!head || retrieval_trainer_head(own->trainer, head, error));
}

static void seed_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    shared_state *shared = argument;
    const lab_ranks *ranks = shared->run->ranks;
    bool is_dealt = shared->run->seed_count > 1, is_joint = ranks && !is_dealt;
    if (atomic_load(&shared->stop) || (!is_joint && lab_interrupted()))
        return;
    if (ranks && is_dealt && task % (size_t)ranks->size != (size_t)ranks->rank)
        return;
    seed_run own = {
        .shared = shared, .seed = shared->run->seeds[task], .ranks = is_joint ? ranks : NULL};
    lab_error error = {.kind = LAB_NO_ERROR};
    bool is_done = run_seed(&own, shared->heads ? &shared->heads[task] : NULL, &error);
    if (!nn_files_close(&own.files, &error) || !is_done)
        note_failure(shared, &error);
    retrieval_trainer_destroy(own.trainer);
}

/* Whether a seed can continue from its checkpoint. */
static bool can_continue(const nn_engine *engine, const retrieval_run *run, uint64_t seed,
                         const char *path, lab_error *error) {
    retrieval_trainer *trainer =
        retrieval_trainer_create(engine, &run->config, seed, run->executor, error);
    bool is_good = trainer && retrieval_trainer_restore(trainer, path, error);
    retrieval_trainer_destroy(trainer);
    return is_good;
}

/* Existing checkpoints are only replaced when the run is resumed, and is the same run. */
static bool check_checkpoints(const nn_engine *engine, const retrieval_run *run, lab_error *error) {
    for (size_t i = 0; i < run->seed_count; i++) {
        char *path = checkpoint_path(run, run->seeds[i]);
        bool is_good =
            path ? nn_run_folder_allows(&run->folder, path, error) : lab_fail_memory(error);
        if (is_good && lab_file_exists(path))
            is_good = can_continue(engine, run, run->seeds[i], path, error);
        free(path);
        if (!is_good)
            return false;
    }
    return true;
}

static json_t *run_options(const retrieval_run *run) {
    unsigned mark = lab_json_mark();
    json_t *options = retrieval_config_to_json(&run->config, 0);
    json_t *seeds = json_array();
    for (size_t i = 0; i < run->seed_count; i++)
        json_array_append_new(seeds, json_integer((json_int_t)run->seeds[i]));
    json_object_del(options, "seed");
    json_object_set_new(options, seeds_key, seeds);
    nn_run_folder_to_json(&run->folder, options);
    return lab_json_whole(options, mark);
}

static void run_all_seeds(shared_state *shared) {
    const retrieval_run *run = shared->run;
    const whet_executor *executor = run->executor;
    if (executor && run->seed_count > 1)
        executor->parallel_for(executor->context, run->seed_count, seed_task, shared);
    else
        for (size_t i = 0; i < run->seed_count; i++)
            seed_task(shared, i, 0);
}

/* How many of the seeds this process trains. */
static size_t seeds_of(const retrieval_run *run) {
    size_t size = run->ranks ? (size_t)run->ranks->size : 1;
    if (size == 1 || run->seed_count == 1)
        return run->seed_count;
    return (run->seed_count + size - 1 - (size_t)run->ranks->rank) / size;
}

static bool train_all(const nn_engine *engine, const retrieval_run *run, retrieval_heads *heads,
                      lab_error *error) {
    shared_state shared = {.engine = engine,
                           .run = run,
                           .heads = heads ? heads->list : NULL,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .error = error};
    shared.progress = lab_progress_begin(run->title ? run->title : "training", 0,
                                         run->config.steps * seeds_of(run), run->quiet);
    run_all_seeds(&shared);
    lab_progress_end(&shared.progress);
    pthread_mutex_destroy(&shared.lock);
    bool is_stopped = lab_ranks_any(run->ranks, lab_interrupted());
    if (error->kind != LAB_NO_ERROR)
        return false;
    uint64_t total = run->config.steps * seeds_of(run);
    if (is_stopped && shared.done < total)
        return nn_fail_stopped(&run->folder, shared.done, total, error);
    return true;
}

/* Gives all processes the heads that each of them has trained. */
static bool share_heads(const retrieval_run *run, retrieval_heads *heads, lab_error *error) {
    const lab_ranks *ranks = run->ranks;
    size_t count = retrieval_layout_of(&run->config).count;
    bool is_good = true;
    if (!ranks || run->seed_count == 1)
        return true;
    for (size_t i = 0; i < heads->count; i++) {
        retrieval_head *head = &heads->list[i];
        if (head->parameters)
            continue;
        *head = (retrieval_head){
            .config = run->config, .seed = run->seeds[i], .step = run->config.steps};
        head->parameters = nn_floats(count);
        is_good = is_good && (head->parameters || lab_fail_memory(error));
    }
    if (!lab_ranks_agree(ranks, is_good, error))
        return false;
    for (size_t i = 0; i < heads->count; i++)
        lab_ranks_give(ranks, (int)(i % (size_t)ranks->size), heads->list[i].parameters,
                       count * sizeof(float));
    return true;
}

static bool train_alone(const nn_engine *engine, const retrieval_run *run, retrieval_heads *heads,
                        lab_error *error) {
    bool writes = run->folder.path && lab_is_first(run->ranks);
    bool is_begun = !writes || check_checkpoints(engine, run, error);
    if (heads) {
        *heads = (retrieval_heads){.list = calloc(run->seed_count, sizeof *heads->list)};
        heads->count = heads->list ? run->seed_count : 0;
        if (!heads->list)
            is_begun = lab_fail_memory(error);
    }
    lab_manifest manifest =
        lab_manifest_begin(command_name, run_options(run), engine->blas.description);
    if (is_begun && writes)
        is_begun = lab_manifest_write(&manifest, run->folder.path, false, error);
    is_begun = lab_ranks_agree(run->ranks, is_begun, error);
    bool is_done = is_begun && train_all(engine, run, heads, error);
    is_done = is_begun && lab_ranks_agree(run->ranks, is_done, error);
    is_done = is_done && (!heads || share_heads(run, heads, error));
    if (is_done && writes)
        is_done = lab_manifest_write(&manifest, run->folder.path, true, error);
    is_done = lab_ranks_agree(run->ranks, is_done, error);
    lab_manifest_end(&manifest);
    if (!is_done && heads)
        retrieval_heads_free(heads);
    return is_done;
}

bool retrieval_train(const nn_engine *engine, const retrieval_run *run, retrieval_heads *heads,
                     lab_error *error) {
    lab_folder_lock lock = lab_folder_unlocked();
    if (!retrieval_config_check(&run->config, error))
        return false;
    if (run->ranks && !lab_ranks_same_options(run->ranks, run_options(run), error))
        return false;
    bool writes = run->folder.path && lab_is_first(run->ranks);
    bool is_taken = !writes || (lab_make_folder(run->folder.path, error) &&
                                lab_folder_take(&lock, run->folder.path, error));
    if (!lab_ranks_agree(run->ranks, is_taken, error)) {
        lab_folder_release(&lock);
        return false;
    }
    bool is_done = train_alone(engine, run, heads, error);
    lab_folder_release(&lock);
    return is_done;
}

/* ---- how long it will take ---- */

static bool try_step(void *trainer) {
    retrieval_step unused;
    return retrieval_trainer_step(trainer, &unused, NULL);
}

double retrieval_step_seconds(const nn_engine *engine, const retrieval_config *config,
                              const whet_executor *executor) {
    retrieval_trainer *trainer = retrieval_trainer_create(engine, config, 0, executor, NULL);
    double seconds = trainer ? nn_time_steps(try_step, trainer) : 0;
    retrieval_trainer_destroy(trainer);
    return seconds;
}

double retrieval_train_seconds(const nn_engine *engine, const retrieval_run *run) {
    enum { FEW = 1000 };
    uint64_t left = 0;
    for (size_t i = 0; i < run->seed_count; i++) {
        char *path = checkpoint_path(run, run->seeds[i]);
        left += path ? nn_run_folder_left(&run->folder, path, run->config.steps) : 0;
        free(path);
    }
    return left > FEW ? (double)left * retrieval_step_seconds(engine, &run->config, run->executor)
                      : 0;
}

/* ---- what a run was ---- */

static bool recall_manifest(json_t *options, retrieval_run *run, uint64_t *seeds, size_t capacity,
                            lab_error *error) {
    uint64_t none;
    const json_t *list = json_object_get(options, seeds_key);
    size_t count = json_array_size(list);
    for (size_t i = 0; run->seed_count == 0 && count <= capacity && i < count; i++)
        seeds[i] = (uint64_t)json_integer_value(json_array_get(list, i));
    if (run->seed_count == 0 && count <= capacity) {
        run->seeds = seeds;
        run->seed_count = count;
    }
    nn_run_folder_from_json(&run->folder, options);
    if (json_object_set_new(options, "seed", json_integer(0)) != 0) /* as in checkpoints */
        return lab_fail_memory(error);
    return retrieval_config_from_json(options, run->folder.path, &run->config, &none, error);
}

static bool recall_checkpoint(const char *path, retrieval_run *run, lab_error *error) {
    nn_checkpoint read;
    uint64_t seed, steps = run->config.steps;
    bool is_good = nn_checkpoint_read(path, &read, error) &&
                   retrieval_config_from_json(read.description, path, &run->config, &seed, error);
    nn_checkpoint_free(&read);
    if (run->config.steps < steps)
        run->config.steps = steps; /* the run was extended */
    return is_good;
}

/* One of them is enough: all seeds have the same options. */
static bool recall_checkpoints(retrieval_run *run, lab_error *error) {
    for (size_t i = 0; i < run->seed_count; i++) {
        char *path = checkpoint_path(run, run->seeds[i]);
        if (!path)
            return lab_fail_memory(error);
        bool is_there = lab_file_exists(path);
        bool is_good = !is_there || recall_checkpoint(path, run, error);
        free(path);
        if (is_there)
            return is_good;
    }
    return true;
}

bool retrieval_run_recall(retrieval_run *run, uint64_t *seeds, size_t capacity, lab_error *error) {
    json_t *options;
    if (!lab_manifest_options(run->folder.path, command_name, &options, error))
        return false;
    bool is_good = (!options || recall_manifest(options, run, seeds, capacity, error)) &&
                   recall_checkpoints(run, error);
    json_decref(options);
    return is_good;
}
