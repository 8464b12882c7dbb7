/*
 * Writing data sets. Each file is written under a temporary name and renamed
 * when it is complete. While an export is unfinished its folder contains a note
 * with the options, by which a later call recognises that it can continue; the
 * note is removed at the end, so that the folder then contains only data. A
 * folder with all files is compared with what would be written: if the bytes
 * are the same, the export is complete.
 */
#define _GNU_SOURCE /* fopencookie */

#include "clrs/export.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/progress.h"
#include "base/signals.h"
#include "clrs/json_text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTE_LIMIT = 1 << 24, SAMPLES_A_LOOK = 64 };

static const char note_prefix[] = ".whet-clrs-export-";

const char *clrs_split_name(clrs_split split) {
    return split == CLRS_SPLIT_TRAIN ? "train" : "val";
}

/* ---- The request ------------------------------------------------------- */

/* The index-th length for an algorithm; false beyond the last. */
static bool find_length(const clrs_export *wanted, const clrs_algorithm *algorithm, size_t index,
                        int64_t *length) {
    if (wanted->lengths) {
        if (index < wanted->length_count)
            *length = wanted->lengths[index];
        return index < wanted->length_count;
    }
    *length = clrs_default_length(algorithm, wanted->split, index);
    return *length > 0;
}

static bool find_seed(const clrs_export *wanted, size_t index, uint64_t *seed) {
    if (wanted->seeds) {
        if (index < wanted->seed_count)
            *seed = (uint64_t)wanted->seeds[index];
        return index < wanted->seed_count;
    }
    int64_t found = clrs_default_seed(wanted->split, index);
    *seed = (uint64_t)found;
    return found >= 0;
}

static uint64_t count_each(const clrs_export *wanted) {
    return wanted->count ? wanted->count : clrs_default_count(wanted->split);
}

/* Samples of one file. */
static uint64_t count_in_file(const clrs_export *wanted, const clrs_algorithm *algorithm) {
    uint64_t pairs = 0, seed = 0, total;
    int64_t length = 0;
    for (size_t i = 0; find_length(wanted, algorithm, i, &length); i++)
        for (size_t j = 0; find_seed(wanted, j, &seed); j++)
            pairs++;
    return __builtin_mul_overflow(pairs, count_each(wanted), &total) ? UINT64_MAX : total;
}

/* The total number of samples; UINT64_MAX on overflow. */
static uint64_t total_of(const clrs_export *wanted) {
    uint64_t total = 0;
    for (size_t i = 0; i < wanted->algorithm_count; i++)
        if (__builtin_add_overflow(total, count_in_file(wanted, wanted->algorithms[i]), &total))
            return UINT64_MAX;
    return total;
}

static clrs_request make_request(const clrs_export *wanted, const clrs_algorithm *algorithm,
                                 int64_t length, uint64_t seed) {
    return (clrs_request){.algorithm = algorithm->name,
                          .length = length,
                          .seed = seed,
                          .decimals = wanted->decimals,
                          .hints = wanted->hints,
                          .ties = wanted->ties};
}

static bool check_wishes(const clrs_export *wanted, lab_error *error) {
    uint64_t seed = 0;
    for (size_t j = 0; find_seed(wanted, j, &seed); j++)
        if (seed > INT32_MAX)
            return lab_fail(error, LAB_INPUT,
                            "--seeds: %" PRIu64 " is out of range (0 to 2,147,483,647)", seed);
    for (size_t i = 0; i < wanted->algorithm_count; i++) {
        int64_t length = 0;
        for (size_t j = 0; find_length(wanted, wanted->algorithms[i], j, &length); j++) {
            char message[CLRS_MESSAGE_SIZE];
            clrs_request request = make_request(wanted, wanted->algorithms[i], length, 0);
            if (clrs_request_check(&request, message) != CLRS_OK)
                return lab_fail(error, LAB_INPUT, "%s", message);
        }
    }
    return true;
}

/* ---- One file ------------------------------------------------------------- */

typedef struct file_work {
    const clrs_export *wanted;
    const clrs_algorithm *algorithm;
    lab_progress *progress;
    uint64_t *done;
    lab_error *error;
    bool is_first; /* no example has been written yet */
} file_work;

static void write_example(FILE *file, file_work *work, const clrs_sample *sample) {
    fprintf(file,
            "%s\n    {\n      \"auxiliary\": {\n        \"length\": %d,\n        \"seed\": %" PRIu32
            ",\n        \"use_hints\": %s\n      },\n      \"prompt\": ",
            work->is_first ? "" : ",", sample->length, sample->seed,
            sample->hints ? "true" : "false");
    clrs_write_json_text(file, sample->question, sample->question_length);
    fputs(",\n      \"references\": [\n        ", file);
    clrs_write_json_text(file, sample->answer, sample->answer_length);
    fputs("\n      ]\n    }", file);
    work->is_first = false;
}

static bool fail_sample(const file_work *work, clrs_status status, const clrs_request *request,
                        uint64_t index) {
    errno = ECANCELED;
    if (status == CLRS_ERROR_MEMORY)
        return lab_fail_memory(work->error);
    return lab_fail(
        work->error, LAB_INPUT, "%s, length %" PRId64 ", seed %" PRIu64 ", sample %" PRIu64 ": %s",
        request->algorithm, request->length, request->seed, index, clrs_status_text(status));
}

/* All samples of a sampler; stops with an error on a signal or a failed write. */
static bool write_samples(FILE *file, file_work *work, const clrs_request *request,
                          clrs_sampler *sampler) {
    uint64_t count = count_each(work->wanted);
    for (uint64_t i = 0; i < count; i++) {
        clrs_sample sample;
        clrs_status status = clrs_sampler_next(sampler, &sample);
        if (status != CLRS_OK)
            return fail_sample(work, status, request, i);
        write_example(file, work, &sample);
        ++*work->done;
        if (lab_interrupted()) {
            errno = EINTR;
            return lab_fail(work->error, LAB_STOPPED,
                            "stopped; the same command continues from here");
        }
        if (i % SAMPLES_A_LOOK != 0)
            continue;
        if (ferror(file))
            return false;
        lab_progress_show(work->progress, *work->done, "%s", request->algorithm);
    }
    return true;
}

static bool write_one_setting(FILE *file, file_work *work, int64_t length, uint64_t seed) {
    clrs_request request = make_request(work->wanted, work->algorithm, length, seed);
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(&request, &sampler);
    if (status != CLRS_OK)
        return fail_sample(work, status, &request, 0);
    bool done = write_samples(file, work, &request, sampler);
    clrs_sampler_destroy(sampler);
    return done;
}

static bool write_file(FILE *file, void *context) {
    file_work *work = context;
    int64_t length = 0;
    uint64_t seed = 0;
    fprintf(file, "{\n  \"name\": \"clrs_text_%s\",\n  \"examples\": [", work->algorithm->name);
    for (size_t i = 0; find_length(work->wanted, work->algorithm, i, &length); i++)
        for (size_t j = 0; find_seed(work->wanted, j, &seed); j++)
            if (!write_one_setting(file, work, length, seed))
                return false;
    fputs("\n  ]\n}", file);
    return true;
}

/* A stream that writes nothing but compares its input with a file. */
typedef struct comparison {
    FILE *file;
    bool differs;
} comparison;

static ssize_t compare_some(void *cookie, const char *bytes, size_t size) {
    comparison *with = cookie;
    char found[4096];
    for (size_t done = 0; done < size && !with->differs;) {
        size_t now = size - done < sizeof found ? size - done : sizeof found;
        with->differs =
            fread(found, 1, now, with->file) != now || memcmp(found, bytes + done, now) != 0;
        done += now;
    }
    return with->differs ? 0 : (ssize_t)size; /* 0 is an error, which ends writing */
}

/* Whether a file contains exactly what would be written. */
static bool is_already_written(file_work *work, const char *path) {
    comparison with = {.file = fopen(path, "rb")};
    if (!with.file)
        return lab_fail_file(work->error, "read", path);
    FILE *file = fopencookie(&with, "w", (cookie_io_functions_t){.write = compare_some});
    bool is_same = file && write_file(file, work);
    if (!file)
        lab_fail_memory(work->error);
    else if (fclose(file) != 0)
        is_same = false;
    is_same = is_same && !with.differs && getc(with.file) == EOF && !ferror(with.file);
    fclose(with.file);
    if (!is_same)
        lab_fail(work->error, LAB_INPUT,
                 "%s: exists and differs from what these options give; use another folder", path);
    return is_same;
}

static bool export_algorithm(file_work *work, const char *path, bool is_comparing) {
    if (is_comparing)
        return is_already_written(work, path);
    return lab_file_exists(path) || replace_file_unless(path, write_file, work) ||
           lab_fail_file(work->error, "write", path);
}

/* ---- The folder ----------------------------------------------------------- */

/* Everything that determines the files' contents. */
static void write_note(FILE *file, const void *context) {
    const clrs_export *wanted = context;
    int64_t length = 0;
    uint64_t seed = 0;
    fprintf(file,
            "An unfinished export of `whet clrs export`: the same command continues it.\n"
            "split %s, decimals %" PRId64 ", hints %d, ties %d, count %" PRIu64 "\nseeds",
            clrs_split_name(wanted->split), wanted->decimals, wanted->hints, (int)wanted->ties,
            count_each(wanted));
    for (size_t j = 0; find_seed(wanted, j, &seed); j++)
        fprintf(file, " %" PRIu64, seed);
    for (size_t i = 0; i < wanted->algorithm_count; i++) {
        fprintf(file, "\n%s", wanted->algorithms[i]->name);
        for (size_t j = 0; find_length(wanted, wanted->algorithms[i], j, &length); j++)
            fprintf(file, " %" PRId64, length);
    }
    fputc('\n', file);
}

static char *make_note(const clrs_export *wanted, size_t *size) {
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (!file)
        return NULL;
    write_note(file, wanted);
    bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

/* Whether the note in a folder belongs to this export. */
static bool is_same_export(const clrs_export *wanted, const char *path, lab_error *error) {
    size_t size = 0, found_size = 0;
    char *note = make_note(wanted, &size);
    if (!note)
        return lab_fail_memory(error);
    char *found = lab_read_file(path, NOTE_LIMIT, &found_size, error);
    bool same = found && found_size == size && memcmp(found, note, size) == 0;
    if (found && !same)
        lab_fail(error, LAB_INPUT,
                 "%s: holds an unfinished export of %s with other options; use those, or another "
                 "folder",
                 wanted->folder, clrs_split_name(wanted->split));
    free(found);
    free(note);
    return same;
}

typedef enum folder_state {
    FOLDER_FAILED,
    FOLDER_FREE,       /* for this split */
    FOLDER_UNFINISHED, /* continue */
    FOLDER_FULL        /* all files are there: compare */
} folder_state;

/* Calls `is_expected` for every name in a folder; false, with an error, where one is not or the
 * folder cannot be read. *count is how many there are. */
static bool look_through(const clrs_export *wanted, const char *path,
                         bool (*is_expected)(const clrs_export *, const char *), size_t *count,
                         lab_error *error) {
    DIR *folder = opendir(path);
    if (!folder)
        return lab_fail_file(error, "read", path);
    bool is_fine = true;
    *count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ++*count;
        is_fine = is_fine && is_expected(wanted, entry->d_name);
    }
    closedir(folder);
    return is_fine ||
           lab_fail(error, LAB_INPUT, "%s: not empty; use a new or an empty folder", path);
}

/* Names that exports of either split create in a folder. */
static bool is_of_exports(const clrs_export *wanted, const char *name) {
    (void)wanted;
    return strcmp(name, clrs_split_name(CLRS_SPLIT_TRAIN)) == 0 ||
           strcmp(name, clrs_split_name(CLRS_SPLIT_VAL)) == 0 ||
           strncmp(name, note_prefix, sizeof note_prefix - 1) == 0;
}

static bool is_of_this_export(const clrs_export *wanted, const char *name) {
    for (size_t i = 0; i < wanted->algorithm_count; i++) {
        const char *own = wanted->algorithms[i]->name;
        size_t length = strlen(own);
        if (strncmp(name, own, length) == 0 && strcmp(name + length, ".json") == 0)
            return true;
    }
    return false;
}

/* A folder with anything but exports is not touched, nor one of another export. */
static folder_state look_into(const clrs_export *wanted, const char *note, const char *split_folder,
                              lab_error *error) {
    size_t count = 0;
    if (lab_file_exists(note))
        return is_same_export(wanted, note, error) ? FOLDER_UNFINISHED : FOLDER_FAILED;
    if (!look_through(wanted, wanted->folder, is_of_exports, &count, error))
        return FOLDER_FAILED;
    if (!lab_file_exists(split_folder))
        return FOLDER_FREE;
    if (!look_through(wanted, split_folder, is_of_this_export, &count, error))
        return FOLDER_FAILED;
    if (count == 0 || count == wanted->algorithm_count)
        return count == 0 ? FOLDER_FREE : FOLDER_FULL;
    lab_fail(error, LAB_INPUT, "%s: holds another export; use a new or an empty folder",
             split_folder);
    return FOLDER_FAILED;
}

/* Removes what a killed run left half written: names that end in .tmp. */
static void remove_leftovers(const char *split_folder) {
    DIR *folder = opendir(split_folder);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".tmp") == 0)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

/* Prepares the folder: creates the note, unless everything is there, and the split's folder. */
static folder_state prepare(const clrs_export *wanted, const char *note, const char *split_folder,
                            lab_error *error) {
    folder_state state = look_into(wanted, note, split_folder, error);
    if (state == FOLDER_FAILED || state == FOLDER_FULL)
        return state;
    if (state == FOLDER_FREE && !replace_file(note, write_note, wanted)) {
        lab_fail_file(error, "write", note);
        return FOLDER_FAILED;
    }
    if (!lab_make_folder(split_folder, error))
        return FOLDER_FAILED;
    remove_leftovers(split_folder);
    return state;
}

/* The files' paths, to be freed; false when memory runs out. */
static bool name_files(const clrs_export *wanted, const char *split_folder,
                       char *paths[CLRS_ALGORITHM_COUNT]) {
    for (size_t i = 0; i < wanted->algorithm_count; i++) {
        paths[i] = lab_path(split_folder, "%s.json", wanted->algorithms[i]->name);
        if (!paths[i])
            return false;
    }
    return true;
}

/* Samples in files that an earlier run completed. */
static uint64_t count_complete(const clrs_export *wanted, char *const *paths) {
    uint64_t count = 0;
    for (size_t i = 0; i < wanted->algorithm_count; i++)
        if (lab_file_exists(paths[i]))
            count += count_in_file(wanted, wanted->algorithms[i]);
    return count;
}

static bool export_all(const clrs_export *wanted, char *const *paths, bool is_comparing,
                       lab_error *error) {
    uint64_t done = is_comparing ? 0 : count_complete(wanted, paths);
    lab_progress progress = lab_progress_begin(is_comparing ? "comparing" : "samples", done,
                                               total_of(wanted), wanted->quiet);
    bool is_fine = true;
    for (size_t i = 0; is_fine && i < wanted->algorithm_count; i++) {
        file_work work = {.wanted = wanted,
                          .algorithm = wanted->algorithms[i],
                          .progress = &progress,
                          .done = &done,
                          .error = error,
                          .is_first = true};
        is_fine = export_algorithm(&work, paths[i], is_comparing);
    }
    lab_progress_end(&progress);
    return is_fine;
}

static bool export_into(const clrs_export *wanted, const char *note, const char *split_folder,
                        bool *was_complete, lab_error *error) {
    char *paths[CLRS_ALGORITHM_COUNT] = {NULL};
    lab_folder_lock lock = lab_folder_unlocked();
    bool done = name_files(wanted, split_folder, paths) || lab_fail_memory(error);
    done = done && lab_make_folder(wanted->folder, error) &&
           lab_folder_take(&lock, wanted->folder, error);
    folder_state state = done ? prepare(wanted, note, split_folder, error) : FOLDER_FAILED;
    *was_complete = state == FOLDER_FULL;
    done = state != FOLDER_FAILED && export_all(wanted, paths, *was_complete, error);
    if (done && !*was_complete && unlink(note) != 0)
        done = lab_fail_file(error, "remove", note);
    lab_folder_release(&lock);
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        free(paths[i]);
    return done;
}

bool clrs_export_write(const clrs_export *wanted, bool *was_complete, lab_error *error) {
    if (!check_wishes(wanted, error))
        return false;
    char *note = lab_path(wanted->folder, "%s%s", note_prefix, clrs_split_name(wanted->split));
    char *split_folder = lab_path(wanted->folder, "%s", clrs_split_name(wanted->split));
    bool done = note && split_folder ? export_into(wanted, note, split_folder, was_complete, error)
                                     : lab_fail_memory(error);
    free(note);
    free(split_folder);
    return done;
}
