// The matrix product that convolutions are made of, in blocks that stay in registers.

#ifndef UPSILON_JAX_NATIVE_MULTIPLY_H_
#define UPSILON_JAX_NATIVE_MULTIPLY_H_

#include <cstdint>

#include "vectors.h"

namespace {

// A block of accumulators that leaves registers for the factors.
constexpr int kRows = kLanes == 8 ? 6 : 12;
constexpr int kColumns = 2;  // registers

// c [R, C registers] = or += Σ_k a[r, k] b[k, :], where a[r, k] is at a + r ar + k ak.
template <int R, int C>
void MultiplyBlock(const float* a, int64_t ar, int64_t ak, const float* b, int64_t bk,
                   float* c, int64_t cr, int64_t depth, bool add) {
  Vec sum[R][C] = {};
  for (int64_t k = 0; k < depth; ++k, a += ak, b += bk) {
    Vec row[C];
    for (int j = 0; j < C; ++j) row[j] = Load(b + j * kLanes);
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < C; ++j) sum[r][j] += a[r * ar] * row[j];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < C; ++j) {
      float* place = c + r * cr + j * kLanes;
      Store(place, add ? Load(place) + sum[r][j] : sum[r][j]);
    }
  }
}

template <int C>
void MultiplyRows(int64_t rows, const float* a, int64_t ar, int64_t ak, const float* b,
                  int64_t bk, float* c, int64_t cr, int64_t depth, bool add) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    MultiplyBlock<kRows, C>(a + r * ar, ar, ak, b, bk, c + r * cr, cr, depth, add);
  }
  for (; r + 8 <= rows; r += 8) {  // never, where kRows is less
    MultiplyBlock<8, C>(a + r * ar, ar, ak, b, bk, c + r * cr, cr, depth, add);
  }
  for (; r + 4 <= rows; r += 4) {
    MultiplyBlock<4, C>(a + r * ar, ar, ak, b, bk, c + r * cr, cr, depth, add);
  }
  for (; r < rows; ++r) {
    MultiplyBlock<1, C>(a + r * ar, ar, ak, b, bk, c + r * cr, cr, depth, add);
  }
}

// c [rows, columns] = or += a b, all of them row-major but a, which has two strides.
void Multiply(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t ar,
              int64_t ak, const float* b, float* c, bool add) {
  constexpr int kWide = kColumns * kLanes;
  int64_t j = 0;
  for (; j + kWide <= columns; j += kWide) {
    MultiplyRows<kColumns>(rows, a, ar, ak, b + j, columns, c + j, columns, depth, add);
  }
  for (; j < columns; j += kLanes) {
    MultiplyRows<1>(rows, a, ar, ak, b + j, columns, c + j, columns, depth, add);
  }
}

}  // namespace

#endif  // UPSILON_JAX_NATIVE_MULTIPLY_H_
