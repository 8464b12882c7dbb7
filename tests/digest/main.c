// usage: digest [--isa | PATH ...]
#include "digest.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--isa") == 0) {
        printf("%s\n", whet_isa());
        return 0;
    }
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "usage: digest [--isa | PATH ...]\n");
        return 2;
    }
    digest_select(argv + 1, (size_t)argc - 1);
    digest_rows();
    digest_rows_backward();
    digest_row_extras();
    digest_attention();
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "digest: cannot write to standard output\n");
        return 1;
    }
    return 0;
}
