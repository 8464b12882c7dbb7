/* The tail of Student's t against its closed forms and against tables. */
#include "support/check.h"

#include "base/statistics.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* With one and two degrees of freedom there are formulas; they are written so that nothing cancels
 * for large t. */
TEST(tails_of_t_are_those_of_the_formulas) {
    static const double values[] = {0, 0.01, 0.5, 1, 3, 30, 1e4};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double t = values[i], root = sqrt(2 + t * t);
        double one = t > 0 ? atan(1 / t) / pi : 0.5, two = 1 / (root * (root + t));
        CHECK_NEAR(lab_student_tail(t, 1) / one, 1, 1e-12);
        CHECK_NEAR(lab_student_tail(t, 2) / two, 1, 1e-12);
        CHECK_NEAR(lab_student_tail(-t, 1), 1 - one, 1e-14);
    }
    CHECK(lab_student_tail(INFINITY, 3) == 0 && lab_student_tail(-INFINITY, 3) == 1);
}

TEST(tails_of_t_are_those_of_tables) {
    for (size_t degrees = 1; degrees < 200; degrees++)
        CHECK_NEAR(lab_student_tail(lab_student_95(degrees), degrees), 0.025, 3e-5);
    CHECK_NEAR(lab_student_tail(3.290526731491895, 100000000), 0.0005, 1e-9); /* the normal */
    CHECK_NEAR(lab_student_tail(4.032, 5), 0.005, 2e-6);
}
