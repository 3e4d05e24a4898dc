// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Task Bench's graphs as OpenMP tasks with depend clauses, for libgomp and libomp.

#include "taskbench.h"
#include "openmp.h"

// Lists of up to four inputs have separate clauses, because iterators are slower in both libraries.
static void create_task(int t, int p, tile *out, const tile *before, const int *in, int n)
{
    switch (n) {
    case 0:
        #pragma omp task firstprivate(t, p) depend(out : *out)
        execute(t, p);
        break;
    case 1:
        #pragma omp task firstprivate(t, p) depend(out : *out) depend(in : before[in[0]])
        execute(t, p);
        break;
    case 2:
        #pragma omp task firstprivate(t, p) depend(out : *out) depend(in : before[in[0]], before[in[1]])
        execute(t, p);
        break;
    case 3:
        #pragma omp task firstprivate(t, p) depend(out : *out) depend(in : before[in[0]], before[in[1]], before[in[2]])
        execute(t, p);
        break;
    case 4:
        #pragma omp task firstprivate(t, p) depend(out : *out) \
            depend(in : before[in[0]], before[in[1]], before[in[2]], before[in[3]])
        execute(t, p);
        break;
    default:
        #pragma omp task firstprivate(t, p) depend(out : *out) depend(iterator(i = 0 : n), in : before[in[i]])
        execute(t, p);
    }
}

static void graph_create(void)
{
    for (int t = 0; t < steps; t++) {
        const row *r = row_of(t);
        for (int i = 0; i < r->count; i++) {
            int p = r->first + i;
            create_task(t, p, &tiles[t & 1][p], tiles[(t + 1) & 1], r->points[i].input, r->points[i].inputs);
        }
    }
}

static void peak_create(void)
{
    for (int i = 0; i < threads; i++) {
        #pragma omp task firstprivate(i)
        peak_part(i);
    }
}
