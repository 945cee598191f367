// Rows of a matrix to columns and back, by squares that stay in registers.

#ifndef UPSILON_JAX_NATIVE_TRANSPOSE_H_
#define UPSILON_JAX_NATIVE_TRANSPOSE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "vectors.h"

namespace {

// Entry j of v[i] and entry i of v[j] change places.
void TransposeSquare(Vec (&v)[kLanes]) {
#ifdef __clang__  // which has no shuffle by a vector
  float square[kLanes][kLanes];
  std::memcpy(square, v, sizeof square);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) std::swap(square[i][j], square[j][i]);
  }
  std::memcpy(v, square, sizeof square);
#else
  IntVec lane = {};
  for (int j = 0; j < kLanes; ++j) lane[j] = j;
#pragma GCC unroll 4
  for (int bit = 1; bit < kLanes; bit *= 2) {
    // Where i lacks the bit and j has it, entries change places with those at i | bit
    // and j ^ bit.
    const IntVec has = (lane & bit) != 0, there = lane ^ bit;
    const IntVec without = has ? there + kLanes : lane, with = has ? lane + kLanes : there;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if (i & bit) continue;
      const Vec one = v[i], other = v[i | bit];
      v[i] = __builtin_shuffle(one, other, without);
      v[i | bit] = __builtin_shuffle(one, other, with);
    }
  }
#endif
}

// to[j, i] = from[i, j] for a square of kLanes rows, whose lengths are given.
void CopySquare(const float* from, int64_t from_length, float* to, int64_t to_length) {
  Vec v[kLanes];
  for (int i = 0; i < kLanes; ++i) v[i] = Load(from + i * from_length);
  TransposeSquare(v);
  for (int j = 0; j < kLanes; ++j) Store(to + j * to_length, v[j]);
}

// Calls copy(first column) for squares that cover the columns; the last may overlap.
template <typename Copy>
void ForSquares(int64_t columns, Copy copy) {
  for (int64_t k = 0; k < columns; k += kLanes) copy(std::min(k, columns - kLanes));
}

// [columns, kLanes] from `count` ≤ kLanes rows; the other lanes are `fill`.
void Transpose(const float* rows, int64_t count, int64_t columns, float fill,
               float* lanes) {
  if (count == kLanes && columns >= kLanes) {
    ForSquares(columns, [=](int64_t k) {
      CopySquare(rows + k, columns, lanes + k * kLanes, kLanes);
    });
    return;
  }
  if (count < kLanes) std::fill_n(lanes, columns * kLanes, fill);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t k = 0; k < columns; ++k) lanes[k * kLanes + r] = rows[r * columns + k];
  }
}

void TransposeBack(const float* lanes, int64_t count, int64_t columns, float* rows) {
  if (count == kLanes && columns >= kLanes) {
    ForSquares(columns, [=](int64_t k) {
      CopySquare(lanes + k * kLanes, kLanes, rows + k, columns);
    });
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t k = 0; k < columns; ++k) rows[r * columns + k] = lanes[k * kLanes + r];
  }
}

}  // namespace

#endif  // UPSILON_JAX_NATIVE_TRANSPOSE_H_
