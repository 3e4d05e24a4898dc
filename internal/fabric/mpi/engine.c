//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- process-wide

// weft_init initialises MPI. It restores the signal handlers of Go that the library has replaced:
// Go's handlers turn faults into panics, and need their own stack.
int weft_init(int *provided, int *rank, int *size, int *tag_ub, int *was) {
	struct sigaction saved[65];
	int have[65] = {0};
	int code = MPI_Initialized(was);
	if (code == MPI_SUCCESS && !*was) {
		for (int s = 1; s < 65; s++)
			have[s] = sigaction(s, NULL, &saved[s]) == 0 && saved[s].sa_handler != SIG_DFL && saved[s].sa_handler != SIG_IGN;
		code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, provided);
		for (int s = 1; s < 65; s++)
			if (have[s])
				sigaction(s, &saved[s], NULL);
	} else if (code == MPI_SUCCESS) {
		code = MPI_Query_thread(provided);
	}
	if (code != MPI_SUCCESS)
		return code;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
	void *v = NULL;
	int ok = 0;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &v, &ok);
	*tag_ub = ok ? *(int *)v : 32767;
	return MPI_SUCCESS;
}

int weft_error_text(int code, char *text, int *cls) {
	int n = 0;
	if (MPI_Error_class(code, cls) != MPI_SUCCESS || MPI_Error_string(code, text, &n) != MPI_SUCCESS)
		return 0;
	return n;
}

int weft_lengths(int mine, int *all) { return MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD); }

int weft_gather(const char *mine, int n, char *all, const int *counts, const int *displacements) {
	return MPI_Allgatherv(mine, n, MPI_BYTE, all, counts, displacements, MPI_BYTE, MPI_COMM_WORLD);
}

uint64_t weft_pieces(uint64_t n) { return (n + PIECE - 1) / PIECE; }

// ---- opening and closing

int weft_open(weft_engine **out, weft_shared *shared, const int *ranks, int n, int slots, int frame, uint64_t *exchange) {
	MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
	MPI_Comm c = MPI_COMM_NULL;
	weft_engine *e = calloc(1, sizeof *e);
	if (!e)
		return MPI_ERR_NO_MEM;
	e->shared = shared;
	e->frames = e->bulk = MPI_COMM_NULL;
	e->slots = slots;
	e->frame = frame;
	e->stride = ((size_t)frame + 63) & ~(size_t)63;
	e->posted = malloc(slots * sizeof *e->posted);
	if (!e->posted || posix_memalign((void **)&e->ring, 4096, e->stride * slots)) {
		free(e->posted);
		free(e);
		return MPI_ERR_NO_MEM;
	}
	pthread_mutex_init(&e->mu, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
#ifdef __linux__
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
#endif
	pthread_cond_init(&e->cond, &attr);
	pthread_condattr_destroy(&attr);

	int code = MPI_Comm_group(MPI_COMM_WORLD, &world);
	if (code == MPI_SUCCESS)
		code = MPI_Group_incl(world, n, ranks, &group);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &c);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS) {
		e->frames = c;
		code = MPI_Comm_dup(c, &e->bulk);
	}
	if (code == MPI_SUCCESS)
		code = MPI_Comm_set_errhandler(e->bulk, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS) {
		MPI_Comm_rank(c, &e->rank);
		MPI_Comm_size(c, &e->size);
		code = MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, exchange, 4, MPI_UINT64_T, c);
	}
	if (code == MPI_SUCCESS) {
		MPI_Comm near;
		int local = 1;
		e->yield = CROWDED;
		if (MPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) == MPI_SUCCESS && near != MPI_COMM_NULL) {
			MPI_Comm_size(near, &local);
			MPI_Comm_free(&near);
			if (local <= sysconf(_SC_NPROCESSORS_ONLN))
				e->yield = ALONE;
			else
				e->report.crowded = 1;
		}
	}
	if (world != MPI_GROUP_NULL)
		MPI_Group_free(&world);
	if (group != MPI_GROUP_NULL)
		MPI_Group_free(&group);
	weft_refill(e);
	*out = e;
	if (code != MPI_SUCCESS)
		weft_close(e, 1);
	return code;
}

int weft_post_slot(weft_engine *e, int i) {
	return MPI_Irecv(e->ring + i * e->stride, e->frame, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, e->frames, &e->posted[i]);
}

void weft_post(weft_engine *e) {
	for (int i = 0; i < e->slots; i++)
		if (weft_post_slot(e, i) != MPI_SUCCESS)
			e->posted[i] = MPI_REQUEST_NULL;
	e->live = 1;
}

static void free_list(buffer *b) {
	while (b) {
		buffer *next = b->next;
		free(b);
		b = next;
	}
}

void weft_close(weft_engine *e, int orderly) {
	if (!orderly)
		return; // MPI may still read and write all of this
	// The held slots are not posted, and null. The others are posted, and no message will arrive.
	for (int i = 0; e->live && i < e->slots; i++)
		if (e->posted[i] != MPI_REQUEST_NULL) {
			MPI_Cancel(&e->posted[i]);
			MPI_Wait(&e->posted[i], MPI_STATUS_IGNORE);
		}
	e->live = 0;
	if (e->bulk != MPI_COMM_NULL)
		MPI_Comm_free(&e->bulk);
	if (e->frames != MPI_COMM_NULL)
		MPI_Comm_free(&e->frames);
	free(e->next);
	free_list(e->small);
	free_list(e->large);
	free(e->posted);
	free(e->ring);
	free(e->req);
	free(e->ent);
	free(e->index);
	free(e->status);
	free(e->over);
}

void weft_free(weft_engine *e) {
	pthread_cond_destroy(&e->cond);
	pthread_mutex_destroy(&e->mu);
	free(e);
}

weft_report *weft_report_of(weft_engine *e) { return &e->report; }
