// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The message benchmarks as an MPI program, for comparison with weft's: the operations, loops,
 * checks and statistics equal those of bench/internal/imb. Rank 0 prints a JSON object for each
 * row.
 *
 *   imb -bench Allreduce -sizes 8,1048576 -iter 1000 -vol 41943040 -time 2 -sync 1
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { window = 64, tag = 7 };

static int rank, ranks;
static const char *bench = "PingPong", *sizes = "8";
static long iterations = 1000, volume = 40L << 20;
static double limit = 2; /* seconds per row */
static int barriers = 1;

static char *out, *in;            /* send and receive buffers */
static MPI_Request requests[2 * window];

static double now(void) { /* seconds */
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Contents: byte i of rank r's part p. Floats are small whole numbers, so that sums are exact. */
static char content(int r, int p, long i) { return (char)(17 * r + 31 * p + 7 * i + (i >> 8)); }
static float number(int r, long i) { return (float)((r + 1) + i % 13); }

static int peer_of(void) { return (rank + ranks / 2) % ranks; }
static int pairs(void) { return ranks - ranks % 2; } /* ranks of Uniband and Biband */

/* One operation. size is in bytes: of a message, or of one rank's part. */

static void ping_pong(long size) {
	if (rank == 0) {
		MPI_Send(out, (int)size, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
		MPI_Recv(in, (int)size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(in, (int)size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, (int)size, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
	}
}

static void test_until(long size, int peer) {
	MPI_Request r;
	MPI_Irecv(in, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &r);
	for (int done = 0; !done;)
		MPI_Test(&r, &done, MPI_STATUS_IGNORE);
}

static void probe_until(long size, int peer) {
	for (int here = 0; !here;)
		MPI_Iprobe(peer, tag, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
	MPI_Recv(in, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ping_pong_by(void (*receive)(long, int), long size) {
	if (rank > 1)
		return;
	if (rank == 1)
		receive(size, 0);
	MPI_Send(out, (int)size, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD);
	if (rank == 0)
		receive(size, 1);
}

static void test_loop(long size) { ping_pong_by(test_until, size); }
static void probe_loop(long size) { ping_pong_by(probe_until, size); }

static void ping_ping(long size) {
	if (rank > 1)
		return;
	MPI_Request r;
	MPI_Isend(out, (int)size, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, &r);
	MPI_Recv(in, (int)size, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void sendrecv(long size) {
	MPI_Sendrecv(out, (int)size, MPI_BYTE, (rank + 1) % ranks, tag, in, (int)size, MPI_BYTE, (rank + ranks - 1) % ranks, tag,
	             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(long size) {
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	MPI_Request r[2];
	MPI_Isend(out, (int)size, MPI_BYTE, right, tag, MPI_COMM_WORLD, &r[0]);
	MPI_Isend(out, (int)size, MPI_BYTE, left, tag, MPI_COMM_WORLD, &r[1]);
	MPI_Recv(in, (int)size, MPI_BYTE, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Recv(in, (int)size, MPI_BYTE, right, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void band(long size, int both) {
	if (rank >= pairs())
		return;
	int peer = rank < pairs() / 2 ? rank + pairs() / 2 : rank - pairs() / 2, sends = rank < pairs() / 2, n = 0;
	if (!sends || both)
		for (int k = 0; k < window; k++)
			MPI_Irecv(in, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[n++]);
	if (sends || both)
		for (int k = 0; k < window; k++)
			MPI_Isend(out, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[n++]);
	MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
	char ack[4] = {0};
	if (sends)
		MPI_Recv(ack, 4, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(ack, 4, MPI_BYTE, peer, tag + 1, MPI_COMM_WORLD);
}

static void uniband(long size) { band(size, 0); }
static void biband(long size) { band(size, 1); }

static void barrier(long size) { (void)size, MPI_Barrier(MPI_COMM_WORLD); }
static void bcast(long size) { MPI_Bcast(rank == 0 ? out : in, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void reduce(long size) { MPI_Reduce(out, in, (int)(size / 4), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); }
static void allreduce(long size) { MPI_Allreduce(out, in, (int)(size / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void scan(long size) { MPI_Scan(out, in, (int)(size / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void allgather(long size) { MPI_Allgather(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD); }
static void alltoall(long size) { MPI_Alltoall(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD); }
static void gather(long size) { MPI_Gather(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void scatter(long size) { MPI_Scatter(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD); }

/* Starts an operation, whose requests are requests[0], or the first two. */

static void istart(void (*op)(long), long size) {
	requests[0] = requests[1] = MPI_REQUEST_NULL;
	int n = (int)size, f = (int)(size / 4);
	MPI_Comm w = MPI_COMM_WORLD;
	if (op == barrier)
		MPI_Ibarrier(w, requests);
	else if (op == bcast)
		MPI_Ibcast(rank == 0 ? out : in, n, MPI_BYTE, 0, w, requests);
	else if (op == reduce)
		MPI_Ireduce(out, in, f, MPI_FLOAT, MPI_SUM, 0, w, requests);
	else if (op == allreduce)
		MPI_Iallreduce(out, in, f, MPI_FLOAT, MPI_SUM, w, requests);
	else if (op == scan)
		MPI_Iscan(out, in, f, MPI_FLOAT, MPI_SUM, w, requests);
	else if (op == allgather)
		MPI_Iallgather(out, n, MPI_BYTE, in, n, MPI_BYTE, w, requests);
	else if (op == alltoall)
		MPI_Ialltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, w, requests);
	else if (op == gather)
		MPI_Igather(out, n, MPI_BYTE, in, n, MPI_BYTE, 0, w, requests);
	else if (op == scatter)
		MPI_Iscatter(out, n, MPI_BYTE, in, n, MPI_BYTE, 0, w, requests);
	else if (rank < pairs()) { /* Overlap: an exchange of messages */
		MPI_Irecv(in, n, MPI_BYTE, peer_of(), tag, w, &requests[0]);
		MPI_Isend(out, n, MPI_BYTE, peer_of(), tag, w, &requests[1]);
	}
}

static void iwait(void) { MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); }

struct benchmark {
	const char *name;
	void (*op)(long);
	int immediate;  /* with overlap */
	double halves;  /* operations per reported time */
	double carried; /* messages per operation, for the bandwidth; 0: none is reported */
	int need;       /* ranks */
	int parts;      /* buffers have a part for each rank */
};

static void overlapped(long size) { (void)size; }

static const struct benchmark benchmarks[] = {
	{"PingPong", ping_pong, 0, 2, 1, 2, 0},     {"PingPing", ping_ping, 0, 1, 1, 2, 0},
	{"Sendrecv", sendrecv, 0, 1, 2, 2, 0},      {"Exchange", exchange, 0, 1, 4, 2, 0},
	{"Uniband", uniband, 0, 1, window, 2, 0},   {"Biband", biband, 0, 1, 2 * window, 2, 0},
	{"Barrier", barrier, 0, 1, 0, 1, 0},        {"Bcast", bcast, 0, 1, 0, 1, 0},
	{"Reduce", reduce, 0, 1, 0, 1, 0},          {"Allreduce", allreduce, 0, 1, 0, 1, 0},
	{"Scan", scan, 0, 1, 0, 1, 0},              {"Allgather", allgather, 0, 1, 0, 1, 1},
	{"Alltoall", alltoall, 0, 1, 0, 1, 1},      {"Gather", gather, 0, 1, 0, 1, 1},
	{"Scatter", scatter, 0, 1, 0, 1, 1},        {"Ibarrier", barrier, 1, 1, 0, 1, 0},
	{"Ibcast", bcast, 1, 1, 0, 1, 0},           {"Ireduce", reduce, 1, 1, 0, 1, 0},
	{"Iallreduce", allreduce, 1, 1, 0, 1, 0},   {"Iscan", scan, 1, 1, 0, 1, 0},
	{"Iallgather", allgather, 1, 1, 0, 1, 1},   {"Ialltoall", alltoall, 1, 1, 0, 1, 1},
	{"Igather", gather, 1, 1, 0, 1, 1},         {"Iscatter", scatter, 1, 1, 0, 1, 1},
	{"Overlap", overlapped, 1, 1, 0, 2, 0},     {"TestLoop", test_loop, 0, 2, 1, 2, 0},
	{"ProbeLoop", probe_loop, 0, 2, 1, 2, 0},
};

/* Computation that calls no library. */

static double field[32 * 32], matrix[32 * 32];

static void work(long units) {
	for (long u = 0; u < units; u++)
		for (int i = 0; i < 32; i++) {
			double s = 0;
			for (int j = 0; j < 32; j++)
				s += matrix[i * 32 + j] * field[j];
			field[i] = s * 1e-3;
		}
}

static double per_unit; /* seconds */

static void calibrate(void) {
	for (int i = 0; i < 32 * 32; i++)
		matrix[i] = 1.0 / (1 + i), field[i] = i;
	for (long units = 100;; units *= 2) {
		double t = now();
		work(units);
		t = now() - t;
		per_unit = t / (double)units;
		if (t > 5e-3)
			return;
	}
}

static void summarize(double mine, double *least, double *most, double *average) {
	MPI_Reduce(&mine, least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, average, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	*average /= ranks;
}

/* The time of one operation: the mean over n of them, with barriers between collectives or not. */
static double timed(const struct benchmark *b, long size, long n) {
	int between = barriers && b->carried == 0;
	for (int k = 0; k < 2; k++)
		MPI_Barrier(MPI_COMM_WORLD);
	double took = 0, began = now();
	for (long i = 0; i < n; i++) {
		if (between)
			began = now();
		if (b->immediate) {
			istart(b->op, size);
			iwait();
		} else {
			b->op(size);
		}
		if (between) {
			took += now() - began;
			MPI_Barrier(MPI_COMM_WORLD);
		}
	}
	if (!between)
		took = now() - began;
	return took / (double)n;
}

static void verify(const struct benchmark *b, long size) {
	long total = b->parts ? size * ranks : size, bad = 0;
	int sums = b->op == reduce || b->op == allreduce || b->op == scan;
	if (sums)
		for (long i = 0; i < size / 4; i++)
			((float *)out)[i] = number(rank, i);
	else if (b->op == bcast)
		for (long i = 0; i < size; i++)
			(rank ? in : out)[i] = rank ? 0 : content(0, 0, i);
	else
		for (int p = 0; p < (b->parts ? ranks : 1); p++)
			for (long i = 0; i < size; i++)
				out[p * size + i] = content(rank, p, i);
	if (b->op != bcast)
		memset(in, 0, (size_t)total);
	if (b->immediate) {
		istart(b->op, size);
		iwait();
	} else {
		b->op(size);
	}
	int upper = rank >= pairs() / 2, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	if (sums) {
		int to = b->op == scan ? rank + 1 : ranks;
		if (b->op != reduce || rank == 0)
			for (long i = 0; i < size / 4; i++) {
				float want = 0;
				for (int r = 0; r < to; r++)
					want += number(r, i);
				bad += ((float *)in)[i] != want;
			}
	} else if (b->op == allgather || (b->op == gather && rank == 0)) {
		for (int p = 0; p < ranks; p++)
			for (long i = 0; i < size; i++)
				bad += in[p * size + i] != content(p, 0, i);
	} else if (b->op == alltoall) {
		for (int p = 0; p < ranks; p++)
			for (long i = 0; i < size; i++)
				bad += in[p * size + i] != content(p, rank, i);
	} else if (b->op == scatter || (b->op == bcast && rank != 0)) {
		for (long i = 0; i < size; i++)
			bad += in[i] != content(0, b->op == scatter ? rank : 0, i);
	} else if (b->op == ping_pong || b->op == ping_ping || b->op == test_loop || b->op == probe_loop) {
		for (long i = 0; rank < 2 && i < size; i++)
			bad += in[i] != content(1 - rank, 0, i);
	} else if (b->op == sendrecv || b->op == exchange) {
		int from = b->op == exchange ? right : left;
		for (long i = 0; i < size; i++)
			bad += in[i] != content(from, 0, i);
	} else if ((b->op == uniband && upper && rank < pairs()) || (b->op == biband && rank < pairs())) {
		for (long i = 0; i < size; i++)
			bad += in[i] != content(upper ? rank - pairs() / 2 : rank + pairs() / 2, 0, i);
	}
	long all = 0;
	MPI_Allreduce(&bad, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (all && rank == 0)
		printf("{\"bench\":\"%s\",\"size\":%ld,\"ranks\":%d,\"why\":\"%ld elements arrived wrong\"}\n", bench, size, ranks, all);
}

static void row(const struct benchmark *b, long size) {
	verify(b, size);
	long n = iterations;
	if (size > 0 && volume / size < n)
		n = volume / size > 0 ? volume / size : 1;
	/* Warm up, and find out how many fit into the time. */
	long few = n / 10 < 3 ? 3 : n / 10 > 50 ? 50 : n / 10;
	double each = timed(b, size, 2), guess;
	/* The decision must be the same at all ranks. */
	MPI_Allreduce(MPI_IN_PLACE, &each, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (each * (double)few < limit)
		each = timed(b, size, few);
	MPI_Allreduce(&each, &guess, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	double warm = limit < 0.01 ? limit : 0.01;
	if (warm / guess > (double)few)
		timed(b, size, (long)(warm / guess));
	int phases = b->immediate ? 3 : 1;
	if (guess * (double)(n * phases) > limit)
		n = (long)(limit / guess / phases) > 2 ? (long)(limit / guess / phases) : 2;
	double least, most, average, mine = timed(b, size, n) / b->halves;
	if (b->need == 2 && b->carried == 1 && rank > 1)
		mine = 0;
	summarize(mine, &least, &most, &average);
	if (b->carried == 1)
		average = least = most; /* only two ranks take part */
	if (!b->immediate) {
		if (rank != 0)
			return;
		double rate = most > 0 ? b->carried * (double)size / most / 1e6 : 0;
		double messages = most > 0 && b->carried >= window ? b->carried / most * (pairs() / 2) : 0;
		printf("{\"bench\":\"%s\",\"size\":%ld,\"ranks\":%d,\"reps\":%ld,\"tmin\":%.4f,\"tmax\":%.4f,\"tavg\":%.4f,\"mbps\":%.2f,\"msgs\":%.1f}\n", bench,
		       size, ranks, n, least * 1e6, most * 1e6, average * 1e6, rate * (b->carried >= window ? pairs() / 2 : 1), messages);
		fflush(stdout);
		return;
	}
	/* As much computation as the operation takes; then both at once. */
	MPI_Bcast(&most, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	double pure = mine;
	long units = (long)(most / per_unit) + 1;
	MPI_Barrier(MPI_COMM_WORLD);
	double t = now();
	for (long i = 0; i < n; i++)
		work(units);
	double cpu = (now() - t) / (double)n, both = 0;
	for (long i = 0; i < n; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		t = now();
		istart(b->op, size);
		work(units);
		iwait();
		both += now() - t;
	}
	both /= (double)n;
	double shorter = pure < cpu ? pure : cpu, overlap = shorter > 0 ? (pure + cpu - both) / shorter * 100 : 0;
	overlap = overlap < 0 ? 0 : overlap > 100 ? 100 : overlap;
	double all[4] = {both, pure, cpu, overlap}, sum[4];
	MPI_Reduce(all, sum, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) {
		printf("{\"bench\":\"%s\",\"size\":%ld,\"ranks\":%d,\"reps\":%ld,\"ovrl\":%.4f,\"pure\":%.4f,\"cpu\":%.4f,\"overlap\":%.2f}\n", bench, size, ranks, n,
		       sum[0] / ranks * 1e6, sum[1] / ranks * 1e6, sum[2] / ranks * 1e6, sum[3] / ranks);
		fflush(stdout);
	}
}

static void say(double value) {
	printf("{\"bench\":\"%s\",\"size\":%ld,\"ranks\":%d,\"reps\":1,\"tmin\":%.4f,\"tmax\":%.4f,\"tavg\":%.4f}\n", bench, 0L, ranks, value, value, value);
	fflush(stdout);
}

/* Progress: the time of an Isend whose receiver has posted its receive and computes. */
static void progress(long size) {
	double sum = 0;
	int n = 5;
	for (int k = -1; k < n; k++) { /* the first one is not counted */
		MPI_Request r;
		if (rank == 1)
			MPI_Irecv(in, (int)size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &r);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 1) {
			work((long)(18e-3 / per_unit));
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		} else if (rank == 0) {
			double t = now();
			MPI_Isend(out, (int)size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &r);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
			sum += k < 0 ? 0 : now() - t;
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	if (rank == 0) {
		double t = sum / n * 1e6;
		printf("{\"bench\":\"Progress\",\"size\":%ld,\"ranks\":%d,\"reps\":%d,\"tmin\":%.4f,\"tmax\":%.4f,\"tavg\":%.4f}\n", size, ranks, n, t, t, t);
	}
}

/* Idle: the processor time of a rank that waits for a message for a second. */
static void idle(void) {
	char c = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	double used = 0;
	if (rank == 1) {
		struct rusage a, b;
		getrusage(RUSAGE_SELF, &a);
		MPI_Recv(&c, 1, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		getrusage(RUSAGE_SELF, &b);
		used = (double)(b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec - a.ru_stime.tv_sec) * 1e6 +
		       (double)(b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec - a.ru_stime.tv_usec);
	} else if (rank == 0) {
		sleep(1);
		MPI_Send(&c, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
	}
	double all = 0;
	MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		say(all);
}

int main(int argc, char **argv) {
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *o = argv[i], *v = argv[i + 1];
		if (!strcmp(o, "-bench"))
			bench = v;
		else if (!strcmp(o, "-sizes"))
			sizes = v;
		else if (!strcmp(o, "-iter"))
			iterations = atol(v);
		else if (!strcmp(o, "-vol"))
			volume = atol(v);
		else if (!strcmp(o, "-time"))
			limit = atof(v);
		else if (!strcmp(o, "-sync"))
			barriers = atoi(v);
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (!strcmp(bench, "Start")) {
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			say(0); /* the process that started this one has the clock */
		MPI_Finalize();
		return 0;
	}
	calibrate();
	if (!strcmp(bench, "Idle")) {
		idle();
		MPI_Finalize();
		return 0;
	}
	const struct benchmark *b = NULL;
	for (size_t k = 0; k < sizeof benchmarks / sizeof *benchmarks; k++)
		if (!strcmp(benchmarks[k].name, bench))
			b = &benchmarks[k];
	int special = !strcmp(bench, "Progress");
	if ((!b && !special) || ranks < (b ? b->need : 2)) {
		if (rank == 0)
			fprintf(stderr, "imb: no benchmark %s for %d ranks\n", bench, ranks);
		MPI_Finalize();
		return 2;
	}
	for (const char *s = sizes; *s;) {
		long size = strtol(s, (char **)&s, 10);
		if (*s == ',')
			s++;
		size_t room = (size_t)(b && b->parts ? size * ranks : size) + 64;
		out = aligned_alloc(64, (room + 63) / 64 * 64), in = aligned_alloc(64, (room + 63) / 64 * 64);
		if (!out || !in)
			MPI_Abort(MPI_COMM_WORLD, 3);
		memset(out, 1, room), memset(in, 2, room);
		if (special)
			progress(size);
		else
			row(b, size);
		free(out), free(in);
	}
	MPI_Finalize();
	return 0;
}
