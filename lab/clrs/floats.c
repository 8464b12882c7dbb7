/*
 * Shortest digits by the Schubfach method of Raffaello Giulietti. A double is
 * the middle of the interval of reals that round to it. Scaled by a power of
 * ten such that the interval is about 1 to 100 wide, one of at most four
 * integers is the shortest decimal within. Products with 128 bits of that power
 * suffice for exact decisions, if the truncated part is kept as a sticky last
 * bit.
 *
 * The powers are computed when first needed, with plain long arithmetic:
 * typical data needs about twenty of the 617, so there is no table of them in
 * the source.
 *
 * Numbers truncated to a few decimals, nearly all in practice, take a shortcut:
 * if k / 10^d is the number, for a whole k of at most 15 digits, then the
 * digits of k without trailing zeros are the shortest.
 */
#include "clrs/floats.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { LIMBS = 16, LIMB_BITS = 64, SIGNIFICAND_BITS = 52, EXPONENT_BIAS = 1075 };

/* ---- Powers of ten -------------------------------------------------------- */

/* A whole number below 2^1024, least significant limb first. */
typedef struct long_number {
    uint64_t limbs[LIMBS];
} long_number;

static long_number power_of_five(int exponent) {
    long_number power = {{1}};
    for (int i = 0; i < exponent; i++) {
        uint64_t carry = 0;
        for (int limb = 0; limb < LIMBS; limb++) {
            wide product = (wide)power.limbs[limb] * 5 + carry;
            power.limbs[limb] = (uint64_t)product;
            carry = (uint64_t)(product >> LIMB_BITS);
        }
    }
    return power;
}

static int bit_length(const long_number *number) {
    int limb = LIMBS - 1;
    while (limb > 0 && number->limbs[limb] == 0)
        limb--;
    return limb * LIMB_BITS + LIMB_BITS - __builtin_clzll(number->limbs[limb]);
}

static bool bit_at(const long_number *number, int position) {
    return position >= 0 && (number->limbs[position / LIMB_BITS] >> (position % LIMB_BITS) & 1);
}

static bool is_below(const long_number *a, const long_number *b) {
    for (int limb = LIMBS - 1; limb >= 0; limb--)
        if (a->limbs[limb] != b->limbs[limb])
            return a->limbs[limb] < b->limbs[limb];
    return false;
}

static void subtract(long_number *from, const long_number *number) {
    uint64_t borrow = 0;
    for (int limb = 0; limb < LIMBS; limb++) {
        wide difference = (wide)from->limbs[limb] - number->limbs[limb] - borrow;
        from->limbs[limb] = (uint64_t)difference;
        borrow = (uint64_t)(difference >> LIMB_BITS) & 1;
    }
}

static void twice(long_number *number) {
    for (int limb = LIMBS - 1; limb > 0; limb--)
        number->limbs[limb] = number->limbs[limb] << 1 | number->limbs[limb - 1] >> 63;
    number->limbs[0] <<= 1;
}

/* The first 128 bits of a number, and 1 more if any other bit is set. */
static wide first_bits(const long_number *number) {
    wide bits = 0;
    int last = bit_length(number) - 128;
    for (int position = last + 127; position >= last; position--) {
        bits <<= 1;
        if (bit_at(number, position))
            bits |= 1;
    }
    for (int position = 0; position < last; position++)
        if (bit_at(number, position))
            return bits + 1;
    return bits;
}

/* The first 128 bits of 1 / number, for a number above 1 and no power of two, rounded up. */
static wide first_bits_of_inverse(const long_number *number) {
    int length = bit_length(number);
    long_number rest = {{0}};
    rest.limbs[(length - 1) / LIMB_BITS] = (uint64_t)1 << ((length - 1) % LIMB_BITS);
    wide bits = 0;
    for (int i = 0; i < 128; i++) {
        twice(&rest);
        bits <<= 1;
        if (!is_below(&rest, number)) {
            subtract(&rest, number);
            bits |= 1;
        }
    }
    return bits + 1;
}

static clrs_power power_of_ten(clrs_floats *floats, int exponent) {
    clrs_power *known = &floats->powers[exponent - CLRS_POWER_LEAST];
    if (known->high == 0) {
        /* Powers of two shift the bits and change none of them. */
        long_number five = power_of_five(exponent < 0 ? -exponent : exponent);
        wide bits = exponent < 0 ? first_bits_of_inverse(&five) : first_bits(&five);
        known->high = (uint64_t)(bits >> LIMB_BITS);
        known->low = (uint64_t)bits;
    }
    return *known;
}

/* ---- Shortest digits ------------------------------------------------------ */

/* digits * 10^exponent */
typedef struct decimal {
    uint64_t digits;
    int exponent;
} decimal;

/* floor(log10(2^e)), or of 3/4 2^e; and floor(log2(10^e)), for exponents of doubles. */
static int log10_of_power_of_two(int e, bool of_three_quarters) {
    return (e * 1262611 - (of_three_quarters ? 524031 : 0)) >> 22;
}

static int log2_of_power_of_ten(int e) { return (e * 1741647) >> 19; }

/* factor * power / 2^128, where a non-zero remainder sets the last bit. */
static uint64_t multiply_to_odd(clrs_power power, uint64_t factor) {
    wide low = (wide)power.low * factor;
    wide sum = (wide)power.high * factor + (uint64_t)(low >> LIMB_BITS);
    return (uint64_t)(sum >> LIMB_BITS) | ((uint64_t)sum > 1);
}

/* Of a number significand * 2^exponent, positive; `narrow` where the interval below is half as
 * wide, as it is at powers of two. */
static decimal shortest(clrs_floats *floats, uint64_t significand, int exponent, bool narrow) {
    int k = log10_of_power_of_two(exponent, narrow);
    int shift = exponent + log2_of_power_of_ten(-k) + 1;
    clrs_power power = power_of_ten(floats, -k);
    /* In quarters: the interval's ends lie half a unit from the number. */
    uint64_t low = multiply_to_odd(power, (4 * significand - 2 + narrow) << shift);
    uint64_t middle = multiply_to_odd(power, (4 * significand) << shift);
    uint64_t high = multiply_to_odd(power, (4 * significand + 2) << shift);
    /* The ends of an odd significand's interval belong to adjacent numbers. */
    low += significand & 1;
    high -= significand & 1;

    uint64_t below = middle / 4;
    if (below >= 10) {
        uint64_t tens = below / 10;
        bool down_fits = low <= 40 * tens, up_fits = 40 * tens + 40 <= high;
        if (down_fits != up_fits)
            return (decimal){tens + up_fits, k + 1};
    }
    bool down_fits = low <= 4 * below, up_fits = 4 * below + 4 <= high;
    if (down_fits != up_fits)
        return (decimal){below + up_fits, k};
    uint64_t half = 4 * below + 2;
    bool up = middle > half || (middle == half && (below & 1));
    return (decimal){below + up, k};
}

static decimal shortest_of(clrs_floats *floats, double positive) {
    uint64_t bits;
    memcpy(&bits, &positive, sizeof bits);
    uint64_t fraction = bits & (((uint64_t)1 << SIGNIFICAND_BITS) - 1);
    int biased = (int)(bits >> SIGNIFICAND_BITS);
    if (biased == 0)
        return shortest(floats, fraction, 1 - EXPONENT_BIAS, false);
    uint64_t significand = fraction | (uint64_t)1 << SIGNIFICAND_BITS;
    return shortest(floats, significand, biased - EXPONENT_BIAS, fraction == 0 && biased > 1);
}

/* ---- Layout --------------------------------------------------------------- */

double clrs_power_of_ten(int exponent) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return powers[exponent];
}

double clrs_truncate(double value, int decimals) {
    if (decimals == 0)
        return value;
    double scale = clrs_power_of_ten(decimals);
    return trunc(value * scale) / scale;
}

/* The number as a few digits, if it has at most `decimals` decimals; trailing zeros are removed. */
static bool short_way(double positive, int decimals, decimal *found) {
    if (decimals < 1 || decimals > 15)
        return false;
    double scaled = positive * clrs_power_of_ten(decimals) + 0.5;
    if (!(scaled < 1e15))
        return false;
    uint64_t digits = (uint64_t)scaled;
    if ((double)digits / clrs_power_of_ten(decimals) != positive)
        return false;
    *found = (decimal){digits, -decimals};
    return true;
}

static const char zeros[] = {'0', '.', '0', '0', '0'};

/* Writes the digits of a number, `count` of them with leading zeros. */
static void write_digits(char *to, uint64_t number, int count) {
    for (int i = count - 1; i >= 0; i--) {
        to[i] = (char)('0' + number % 10);
        number /= 10;
    }
}

static int count_digits(uint64_t number) {
    int count = 1;
    for (; number >= 10; number /= 10)
        count++;
    return count;
}

/* d.ddde-XX */
static size_t write_scientific(char *to, const char *digits, int count, int exponent) {
    char *start = to;
    *to++ = digits[0];
    if (count > 1) {
        *to++ = '.';
        memcpy(to, digits + 1, (size_t)count - 1);
        to += count - 1;
    }
    *to++ = 'e';
    *to++ = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    int width = exponent < 100 ? 2 : 3;
    write_digits(to, (uint64_t)exponent, width);
    return (size_t)(to + width - start);
}

/* `point` digits stand before the decimal point; -3 to 16. */
static size_t write_positional(char *to, const char *digits, int count, int point) {
    char *start = to;
    if (point <= 0) {
        memcpy(to, zeros, sizeof zeros);
        to += 2 - point;
        memcpy(to, digits, (size_t)count);
        return (size_t)(to + count - start);
    }
    int whole = count < point ? count : point;
    memcpy(to, digits, (size_t)whole);
    memset(to + whole, '0', (size_t)(point - whole));
    to += point;
    *to++ = '.';
    if (count <= point) {
        *to++ = '0';
        return (size_t)(to - start);
    }
    memcpy(to, digits + point, (size_t)(count - point));
    return (size_t)(to + count - point - start);
}

size_t clrs_float_print(clrs_floats *floats, double value, char *to) {
    char *start = to;
    if (signbit(value))
        *to++ = '-';
    double positive = fabs(value);
    if (positive == 0) {
        memcpy(to, zeros, 3);
        return (size_t)(to + 3 - start);
    }
    decimal number;
    if (!short_way(positive, floats->decimals, &number))
        number = shortest_of(floats, positive);
    while (number.digits % 10 == 0) {
        number.digits /= 10;
        number.exponent++;
    }
    char digits[20] = {0};
    int count = count_digits(number.digits);
    write_digits(digits, number.digits, count);
    int point = count + number.exponent;
    size_t length = point > -4 && point <= 16 ? write_positional(to, digits, count, point)
                                              : write_scientific(to, digits, count, point - 1);
    return length + (size_t)(to - start);
}
