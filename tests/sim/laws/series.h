/* SPDX-License-Identifier: ISC */
/* The latest pairs of two measures: how they go together.  Zeroed: empty. */
#ifndef TESTS_SIM_LAWS_SERIES_H
#define TESTS_SIM_LAWS_SERIES_H

#include <math.h>
#include <stdint.h>

#define SERIES_MAX	50

struct series {
	double x[SERIES_MAX], y[SERIES_MAX];
	uint32_t count, next, size;	/* size: at most SERIES_MAX; 0: that */
};

static inline void series_add(struct series *series, double x, double y) {
	uint32_t size = series->size > 0 ? series->size : SERIES_MAX;

	series->x[series->next] = x;
	series->y[series->next] = y;
	series->next = (series->next + 1) % size;
	series->count += series->count < size;
}

static inline double series_mean(const double *values, uint32_t count) {
	double sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += values[i];
	return count > 0 ? sum / count : 0;
}

/* Of the first list with the second; with itself: the variance. */
static inline double series_covariance(const double *x, const double *y, uint32_t count) {
	double x_mean = series_mean(x, count), y_mean = series_mean(y, count), sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += (x[i] - x_mean) * (y[i] - y_mean);
	return count > 0 ? sum / count : 0;
}

/* -1 to 1; 0 where one of them does not vary. */
static inline double series_correlation(const struct series *series) {
	double x = series_covariance(series->x, series->x, series->count);
	double y = series_covariance(series->y, series->y, series->count);

	return x <= 0 || y <= 0 ? 0 :
	    series_covariance(series->x, series->y, series->count) / sqrt(x * y);
}

/* Deviation of the second by its mean. */
static inline double series_variation(const struct series *series) {
	double mean = series_mean(series->y, series->count);

	return mean <= 0 ? 0 :
	    sqrt(series_covariance(series->y, series->y, series->count)) / mean;
}

#endif
