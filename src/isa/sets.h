/*
 * How to go through the list of instruction sets:
 *
 *     #define WHET_SET(name, target, flags, condition) WHET_IF(target, {#name}, )
 *     #include "isa/sets.def"
 *
 * WHET_IF(macro, code) is the code where the macro is defined as 1, and nothing where it
 * is not defined. The preprocessor has no #if inside a macro; a name that begins with
 * WHET_IF_IS_ is made of the macro instead, which brings a further argument along if it
 * is WHET_IF_IS_1.
 */
#ifndef WHET_ISA_SETS_H
#define WHET_ISA_SETS_H

#define WHET_IF(macro, ...) WHET_IF_EXPANDED(macro, __VA_ARGS__)
#define WHET_IF_EXPANDED(value, ...)                                                               \
    WHET_IF_SECOND(WHET_IF_IS_##value WHET_IF_KEEP, WHET_IF_DROP, 0)(__VA_ARGS__)
#define WHET_IF_IS_1 0,
#define WHET_IF_SECOND(...) WHET_IF_SECOND_OF(__VA_ARGS__)
#define WHET_IF_SECOND_OF(first, second, ...) second
#define WHET_IF_KEEP(...) __VA_ARGS__
#define WHET_IF_DROP(...)

#endif
