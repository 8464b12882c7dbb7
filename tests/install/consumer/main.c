// The smallest user of an installed libwhet: prints its version and the instruction set it chose.

#include <stdio.h>
#include <whet.h>

int main(void) {
    const char *version = whet_version();
    const char *isa = whet_isa();
    if (!version || !version[0] || !isa || !isa[0]) {
        return 1;
    }
    return printf("%s %s\n", version, isa) < 0;
}
