/* Two files of heads as bytes of the program, put there by the assembler; see builtin.h. */
#include "heads/builtin.h"

#include "base/checksum.h"
#include "retrieval/head_file.h"

#if defined(__APPLE__)
#define SECTION ".const_data"
#define SYMBOL(name) "_" name
#else
#define SECTION ".section .rodata"
#define SYMBOL(name) name
#endif

/* WHET_HEADS_FOLDER comes from the build. */
#define EMBED(name, file)                                                                          \
    __asm__(SECTION "\n.balign 16\n.global " SYMBOL(name) "\n" SYMBOL(                             \
        name) ":\n.incbin \"" WHET_HEADS_FOLDER "/" file                                           \
              "\"\n.global " SYMBOL(name "_end") "\n" SYMBOL(name "_end") ":\n.byte 0\n.text\n")
EMBED("whet_heads_paper", "bf16-products.heads");
EMBED("whet_heads_f32", "f32.heads");

extern const char whet_heads_paper[], whet_heads_paper_end[];
extern const char whet_heads_f32[], whet_heads_f32_end[];

static const struct {
    const char *name, *start, *end;
    size_t count;
} files[RETRIEVAL_PRECISIONS] = {
    [RETRIEVAL_BF16_PRODUCTS] = {"the program's own heads", whet_heads_paper, whet_heads_paper_end,
                                 10},
    [RETRIEVAL_F32] = {"the program's own f32 head", whet_heads_f32, whet_heads_f32_end, 1},
};

static size_t size_of(retrieval_precision precision) {
    return (size_t)(files[precision].end - files[precision].start);
}

bool builtin_heads(retrieval_precision precision, retrieval_heads *heads, lab_error *error) {
    *heads = (retrieval_heads){.count = 0};
    if (!files[precision].name)
        return lab_fail(error, LAB_INPUT, "no trained heads of precision %s",
                        retrieval_precision_name(precision));
    return retrieval_heads_read(files[precision].name, files[precision].start, size_of(precision),
                                heads, error);
}

size_t builtin_head_count(retrieval_precision precision) { return files[precision].count; }

uint64_t builtin_heads_checksum(retrieval_precision precision) {
    return lab_checksum(lab_checksum_start, files[precision].start, size_of(precision));
}
