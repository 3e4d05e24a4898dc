// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Task Bench's graphs as flow graphs of oneTBB.

#include "taskbench.h"
#include "tbb.h"

static void graph_create(void)
{
    tasks_graph = std::make_unique<graph>();
    // the nodes of the last three steps, and the predecessors of a node
    std::vector<graph::node *> made[3], before;
    for (auto &step : made)
        step.resize(width);
    for (int t = 0; t < steps; t++) {
        const row *r = row_of(t);
        for (int i = 0; i < r->count; i++) {
            int p = r->first + i;
            const point *self = &r->points[i];
            before.clear();
            for (int k = 0; k < self->follows; k++)
                before.push_back(made[(t + 2) % 3][self->follow[k]]);
            if (self->older)
                before.push_back(made[(t + 1) % 3][p]);
            made[t % 3][p] = tasks_graph->add_after([t, p] { execute(t, p); }, before);
        }
    }
    tasks_graph->run();
}

static void peak_create(void)
{
    tbb::task_group group;
    for (int i = 0; i < threads; i++)
        group.run([i] { peak_part(i); });
    group.wait();
}
