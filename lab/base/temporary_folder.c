/* Temporary folders, and the removal of those that killed runs left. */
#include "base/temporary_folder.h"

#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_LETTERS = 6 }; /* of mkdtemp */

static const char *place(void) {
    const char *chosen = getenv("TMPDIR");
    return chosen && *chosen ? chosen : "/tmp";
}

static void remove_files(int folder) {
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL)
        (void)unlinkat(folder, entry->d_name, 0); /* which leaves folders alone */
    if (entries)
        closedir(entries);
    else if (again >= 0)
        close(again);
}

static bool is_our_own(int folder) {
    struct stat status;
    return fstat(folder, &status) == 0 && status.st_uid == geteuid() &&
           (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static void remove_unused(int parent, const char *name) {
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    if (is_our_own(folder) && flock(folder, LOCK_EX | LOCK_NB) == 0) {
        remove_files(folder);
        (void)unlinkat(parent, name, AT_REMOVEDIR);
    }
    close(folder);
}

static void remove_all_unused(const char *name) {
    size_t length = strlen(name);
    DIR *entries = opendir(place());
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL)
        if (strncmp(entry->d_name, name, length) == 0 && entry->d_name[length] == '.' &&
            strlen(entry->d_name) == length + 1 + RANDOM_LETTERS)
            remove_unused(dirfd(entries), entry->d_name);
    if (entries)
        closedir(entries);
}

bool lab_temporary_folder_make(lab_temporary_folder *folder, const char *name, lab_error *error) {
    enum { TRIES = 8 };
    *folder = (lab_temporary_folder){.lock = lab_folder_unlocked()};
    remove_all_unused(name);
    for (int i = 0; i < TRIES; i++) {
        /* Another run may take a folder that is not locked yet for one of a killed run. */
        lab_error lost = {.kind = LAB_NO_ERROR};
        folder->path = lab_path(place(), "%s.XXXXXX", name);
        if (!folder->path)
            return lab_fail_memory(error);
        if (!mkdtemp(folder->path)) {
            lab_fail_file(error, "create folder", folder->path);
            break;
        }
        if (lab_folder_take(&folder->lock, folder->path, &lost) && lab_file_exists(folder->path))
            return true;
        lab_temporary_folder_remove(folder);
        if (i == TRIES - 1)
            lab_fail(error, LAB_SYSTEM, "%s: cannot keep a temporary folder: %s", place(),
                     lost.kind == LAB_NO_ERROR ? "it was removed" : lost.text);
    }
    free(folder->path);
    folder->path = NULL;
    return false;
}

void lab_temporary_folder_remove(lab_temporary_folder *folder) {
    if (!folder->path)
        return;
    int descriptor = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0) {
        remove_files(descriptor);
        close(descriptor);
    }
    rmdir(folder->path);
    lab_folder_release(&folder->lock);
    free(folder->path);
    folder->path = NULL;
}
