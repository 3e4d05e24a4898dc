// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// How OpenMP programs run a workload: one thread creates the tasks inside a parallel region, and
// all threads execute them.

#ifndef WEFT_BENCH_OPENMP_H
#define WEFT_BENCH_OPENMP_H

#include <omp.h>

static double timed(void (*create)(void))
{
    double took = 0;
    omp_set_dynamic(0); // exactly this number of threads
    #pragma omp parallel num_threads(threads)
    #pragma omp single
    {
        if (omp_get_num_threads() != threads)
            WRONG("OpenMP has %d threads, not %d", omp_get_num_threads(), threads);
        double began = seconds(CLOCK_MONOTONIC);
        create();
        #pragma omp taskwait
        took = seconds(CLOCK_MONOTONIC) - began;
    }
    return took;
}

#endif
