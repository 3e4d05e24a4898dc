// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// The task workloads as OpenMP tasks with depend clauses, for libgomp and libomp.

#include "tasks.h"
#include "openmp.h"

static void independent(void)
{
    for (long i = 0; i < size; i++) {
        uint8_t *m = &marks[i];
        #pragma omp task firstprivate(m)
        mark(m);
    }
}

static void chains(void)
{
    for (long k = 0; k < size / objects; k++)
        for (int i = 0; i < objects; i++) {
            cell *c = &cells[i];
            #pragma omp task firstprivate(c) depend(inout : *c)
            step(c);
        }
}

static void readers(void)
{
    for (long k = 0; k < rounds; k++)
        for (int o = 0; o < OBJECTS; o++) {
            cell *object = &cells[o];
            #pragma omp task firstprivate(object) depend(inout : *object)
            step(object);
            for (int r = 0; r < READERS; r++) {
                cell *count = &counts[o][r];
                #pragma omp task firstprivate(object, count) depend(in : *object)
                count_and_compare(object, count);
            }
        }
}

static void blocks(void)
{
    long side = size + 2;
    for (int t = 0; t < STEPS; t++)
        for (long r = 1; r <= size; r++)
            for (long c = 1; c <= size; c++) {
                cell *own = &cells[r * side + c], *n = own - side, *w = own - 1, *e = own + 1, *s = own + side;
                #pragma omp task firstprivate(own, n, w, e, s) depend(inout : *own) depend(in : *n, *w, *e, *s)
                update(own, n, w, e, s);
            }
}

static void fib_task(int n, int64_t *out)
{
    int64_t a, b;
    if (n < 2) {
        *out = n;
        return;
    }
    #pragma omp task shared(a) firstprivate(n)
    fib_task(n - 1, &a);
    #pragma omp task shared(b) firstprivate(n)
    fib_task(n - 2, &b);
    #pragma omp taskwait
    *out = a + b;
}

static void forkjoin(void) { fib_task(size, &result); }
