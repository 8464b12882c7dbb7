/* Locks on folders. */
#include "base/folder_lock.h"

#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

void lab_folder_sweep(const char *folder) {
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)) != NULL)
        if (temporary_file_process(entry->d_name) > 0)
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries)
        closedir(entries);
}

bool lab_folder_take(lab_folder_lock *lock, const char *folder, lab_error *error) {
    if (lock->descriptor >= 0)
        return true;
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return lab_fail_file(error, "open", folder);
    int result;
    do
        result = flock(descriptor, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) {
        close(descriptor);
        return lab_fail(error, LAB_SYSTEM,
                        "%s: in use by another run of whet; wait for it, or choose another "
                        "folder",
                        folder);
    }
    if (result == 0)
        lab_folder_sweep(folder);
    lock->descriptor = descriptor;
    return true;
}

void lab_folder_release(lab_folder_lock *lock) {
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}
