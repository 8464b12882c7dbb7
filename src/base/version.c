/* The version, and the statuses in words. */
#include "whet.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *whet_version(void) {
    return TEXT(WHET_VERSION_MAJOR) "." TEXT(WHET_VERSION_MINOR) "." TEXT(WHET_VERSION_PATCH);
}

const char *whet_status_text(whet_status status) {
    switch (status) {
    case WHET_OK:
        return "done";
    case WHET_NOT_FINITE:
        return "a row holds NaN or +inf; its result is NaN";
    case WHET_ERROR_ARGUMENT:
        return "an argument is missing or out of range";
    case WHET_ERROR_OVERFLOW:
        return "the sizes are larger than memory can be";
    case WHET_ERROR_OVERLAP:
        return "input and output overlap without being the same place";
    case WHET_ERROR_POLICY:
        return "the policy does not exist or has invalid parameters";
    case WHET_ERROR_UNSUPPORTED:
        return "what is asked for makes sense, but is not offered here";
    case WHET_ERROR_MEMORY:
        return "memory or threads could not be had";
    }
    return "unknown status";
}
