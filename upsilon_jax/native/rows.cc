// Passes over the rows of a matrix [M, K], as custom calls of XLA:CPU.
//
// Every kernel of this package takes sums and maxima over the columns of a row, and exp.
// Here the rows are worked on together, one in each lane of a register, so that K may be
// small or odd; a function reads each array once. Sums over rows are made of sums over
// blocks of fixed size: results depend neither on the number of threads nor on which of
// them is faster.

#include <cfloat>
#include <cmath>
#include <vector>

#include "transpose.h"
#include "vectors.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBlockRows = 1024;
constexpr float kInfinity = INFINITY;
constexpr float kLog2E = 1.44269504f;  // exp(x) = 2^(x kLog2E)

Vec Broadcast(float x) { return x - Vec{}; }
Vec Max(Vec a, Vec b) { return a > b ? a : b; }  // b, if one of them is NaN
Vec Min(Vec a, Vec b) { return a < b ? a : b; }

// 2^x for x ≤ 0, within 2 units of the last place; 0 below 2^-126, where floats lose
// digits.
Vec Exp2(Vec x) {
  x = Max(Broadcast(-127.0f), x);
  // x = n + r with |r| ≤ 1/2; n stands in the low bits of `shifted`.
  const Vec magic = Broadcast(12582912.0f);  // 1.5 · 2^23
  const Vec shifted = x + magic, r = x - (shifted - magic);
  // The polynomial through 2^0 with the least relative error.
  Vec p = 0.001326472731f * r + 0.009671512991f;
  p = p * r + 0.05550733581f;
  p = p * r + 0.2402224243f;
  p = p * r + 0.6931470037f;
  p = p * r + 1.0f;
  // 2^n; the bits of n = -127 are those of 0.
  return p * reinterpret_cast<Vec>((reinterpret_cast<IntVec>(shifted) << 23) + 0x3f800000);
}

using Matrix = ffi::Buffer<ffi::F32, 2>;
using Vector = ffi::Buffer<ffi::F32, 1>;
using Scalar = ffi::Buffer<ffi::F32, 0>;
using Integer = ffi::Buffer<ffi::S32, 0>;
using Labels = ffi::Buffer<ffi::S32, 1>;
using Mask = ffi::Buffer<ffi::PRED, 1>;

// Calls task(block, first row, number of rows, scratch [K, kLanes]) for every group of
// kLanes rows, those of a block one after the other.
template <typename Task>
void ForRows(ffi::ThreadPool& pool, int64_t rows, int64_t columns, Task task) {
  ParallelFor(pool, (rows + kBlockRows - 1) / kBlockRows, [&](int64_t block) {
    static thread_local std::vector<float> scratch;
    scratch.resize(columns * kLanes);
    const int64_t end = std::min(rows, (block + 1) * kBlockRows);
    for (int64_t row = block * kBlockRows; row < end; row += kLanes) {
      task(block, row, std::min<int64_t>(kLanes, end - row), scratch.data());
    }
  });
}

// x [K, kLanes]: log2 P / ε of `count` rows less its maximum over the columns, -inf
// throughout in rows that do not take part.
void RelativeExponents(const float* log_probs, const bool* where, int64_t count,
                       int64_t columns, float sharpness, float* x) {
  Transpose(log_probs, count, columns, -kInfinity, x);
  Vec top = Broadcast(-FLT_MAX), outside = {};
  for (int64_t k = 0; k < columns; ++k) top = Max(Load(x + k * kLanes), top);
  for (int64_t r = 0; r < count; ++r) outside[r] = !where[r];
  for (int64_t k = 0; k < columns; ++k) {
    const Vec below = (Load(x + k * kLanes) - top) * (sharpness * kLog2E);
    Store(x + k * kLanes, outside == 0 ? below : Broadcast(-kInfinity));
  }
}

// Potentials g to the base 2.
struct Potentials {
  std::vector<float> g;
  float largest = -FLT_MAX;
  bool close = true;  // to each other
  bool far = false;   // from each other and from 0: their sums lose whole units

  explicit Potentials(Vector values) {
    float smallest = FLT_MAX;
    for (size_t k = 0; k < values.element_count(); ++k) {
      // Sums of two of them must not overflow.
      g.push_back(std::clamp(values.typed_data()[k] * kLog2E, -FLT_MAX / 4, FLT_MAX / 4));
      largest = std::max(largest, g[k]);
      smallest = std::min(smallest, g[k]);
    }
    close = largest - smallest < 40;  // of the 126 bits of Exp2: 86 are left
    far = !close && std::max(largest, -smallest) > 1e6f;
  }
};

// e [K, kLanes] = 2^(x + g - shift), which may be x itself. The shift is the maximum over
// the columns, or near enough: x has a maximum of 0, so that of x + g is among the g.
// Returns what makes the columns sum to 1, or 0 where they sum to 0.
Vec Exponentials(const float* x, const Potentials& potentials, int64_t columns,
                 float* e) {
  const float* g = potentials.g.data();
  const bool close = potentials.close, far = potentials.far;  // else read for every k
  Vec shift = Broadcast(close ? potentials.largest : -FLT_MAX), total = {};
  for (int64_t k = 0; !close && k < columns; ++k) {
    shift = Max(Load(x + k * kLanes) + g[k], shift);
  }
  for (int64_t k = 0; k < columns; ++k) {
    // At most 0, and 0 for the largest; g - shift first would round far potentials off.
    const Vec mass = Exp2(far ? Load(x + k * kLanes) + g[k] - shift
                              : Load(x + k * kLanes) + (g[k] - shift));
    total += mass;
    Store(e + k * kLanes, mass);
  }
  return total == 0 ? Vec{} : 1 / total;
}

// [M, K] relative exponents. Those of kLanes rows at a time are stored column by column
// in the memory of these rows, as [K, kLanes]; the last rows as [K, their number].
ffi::Error Exponents(ffi::ThreadPool pool, Matrix log_probs, Mask where,
                     Scalar sharpness, ffi::Result<Matrix> exponents) {
  const int64_t rows = log_probs.dimensions()[0], columns = log_probs.dimensions()[1];
  REQUIRE(HasShape(where, {rows}), "rows_exponents: `where` must be [M]");
  REQUIRE(HasShape(*exponents, {rows, columns}),
          "rows_exponents: the result must be [M, K]");
  ForRows(pool, rows, columns, [&](int64_t, int64_t row, int64_t count, float* x) {
    RelativeExponents(log_probs.typed_data() + row * columns, where.typed_data() + row,
                      count, columns, sharpness.typed_data()[0], x);
    float* to = exponents->typed_data() + row * columns;
    for (int64_t k = 0; k < columns; ++k) {
      std::copy_n(x + k * kLanes, count, to + k * count);
    }
  });
  return ffi::Error::Success();
}

// [K] sums over the rows of softmax(exponents + g); all else is in the exponents.
ffi::Error Masses(ffi::ThreadPool pool, Matrix exponents, Mask, Scalar, Vector g,
                  ffi::Result<Vector> masses) {
  const int64_t rows = exponents.dimensions()[0], columns = exponents.dimensions()[1];
  REQUIRE(HasShape(g, {columns}), "rows_masses: g must be [K]");
  REQUIRE(HasShape(*masses, {columns}), "rows_masses: the result must be [K]");
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const Potentials potentials(g);
  std::vector<Vec> sums(blocks * columns);
  ForRows(pool, rows, columns, [&](int64_t block, int64_t row, int64_t count, float* e) {
    const float* x = exponents.typed_data() + row * columns;
    if (count < kLanes) {
      std::fill_n(e, columns * kLanes, -kInfinity);
      for (int64_t k = 0; k < columns; ++k) {
        std::copy_n(x + k * count, count, e + k * kLanes);
      }
      x = e;
    }
    const Vec scale = Exponentials(x, potentials, columns, e);
    Vec* sum = sums.data() + block * columns;
    for (int64_t k = 0; k < columns; ++k) sum[k] += Load(e + k * kLanes) * scale;
  });
  for (int64_t k = 0; k < columns; ++k) {
    double mass = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      for (int r = 0; r < kLanes; ++r) mass += sums[block * columns + k][r];
    }
    masses->typed_data()[k] = mass;
  }
  return ffi::Error::Success();
}

// [M, K] weight · softmax(log P / ε + g).
ffi::Error Softmax(ffi::ThreadPool pool, Matrix log_probs, Mask where, Scalar sharpness,
                   Vector g, Scalar weight, ffi::Result<Matrix> plan) {
  const int64_t rows = log_probs.dimensions()[0], columns = log_probs.dimensions()[1];
  REQUIRE(HasShape(where, {rows}), "rows_softmax: `where` must be [M]");
  REQUIRE(HasShape(g, {columns}), "rows_softmax: g must be [K]");
  REQUIRE(HasShape(*plan, {rows, columns}), "rows_softmax: the result must be [M, K]");
  const Potentials potentials(g);
  ForRows(pool, rows, columns, [&](int64_t, int64_t row, int64_t count, float* x) {
    RelativeExponents(log_probs.typed_data() + row * columns, where.typed_data() + row,
                      count, columns, sharpness.typed_data()[0], x);
    const Vec scale = weight.typed_data()[0] * Exponentials(x, potentials, columns, x);
    for (int64_t k = 0; k < columns; ++k) {
      Store(x + k * kLanes, Load(x + k * kLanes) * scale);
    }
    TransposeBack(x, count, columns, plan->typed_data() + row * columns);
  });
  return ffi::Error::Success();
}

// Of every row of logits z the first largest y among the `num_labels` first columns, or
// -1 if a z is not finite; z_y; m = max_{k≠y} z_k; Σ_{k≠y} exp(z_k - m).
ffi::Error TopLabel(ffi::ThreadPool pool, Matrix logits, Integer num_labels,
                    ffi::Result<Labels> label, ffi::Result<Vector> own,
                    ffi::Result<Vector> other, ffi::Result<Vector> rest) {
  const int64_t rows = logits.dimensions()[0], columns = logits.dimensions()[1];
  const int64_t labels = num_labels.typed_data()[0];
  REQUIRE(1 <= labels && labels <= columns,
          "rows_top_label: the number of labels must be in [1, K]");
  REQUIRE(HasShape(*label, {rows}) && HasShape(*own, {rows}) &&
              HasShape(*other, {rows}) && HasShape(*rest, {rows}),
          "rows_top_label: the results must be [M]");
  ForRows(pool, rows, columns, [&](int64_t, int64_t row, int64_t count, float* z) {
    Transpose(logits.typed_data() + row * columns, count, columns, 0, z);
    Vec first = Broadcast(-kInfinity), second = first, broken = {}, sum = {};
    for (int64_t k = 0; k < labels; ++k) {
      const Vec x = Load(z + k * kLanes);
      second = Max(Min(x, first), second);
      first = Max(x, first);
    }
    for (int64_t k = labels; k < columns; ++k) {
      second = Max(Load(z + k * kLanes), second);
    }
    IntVec y = {};
    for (int64_t k = columns - 1; k >= 0; --k) {
      const Vec x = Load(z + k * kLanes);
      broken += 0 * x;  // NaN for ±inf and NaN
      const IntVec is_top = k < labels ? x == first : IntVec{};
      y = is_top ? int32_t(k) - IntVec{} : y;
      sum += Exp2(Min(x - second, Vec{}) * kLog2E);
    }
    sum -= Exp2(Min(first - second, Vec{}) * kLog2E);  // without y's own term
    y = broken == 0 ? y : IntVec{} - 1;
    for (int64_t r = 0; r < count; ++r) {
      label->typed_data()[row + r] = y[r];
      own->typed_data()[row + r] = first[r];
      other->typed_data()[row + r] = second[r];
      rest->typed_data()[row + r] = sum[r];
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(rows_exponents, Exponents,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Matrix>()
                                  .Arg<Mask>()
                                  .Arg<Scalar>()
                                  .Ret<Matrix>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(rows_masses, Masses,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Matrix>()
                                  .Arg<Mask>()
                                  .Arg<Scalar>()
                                  .Arg<Vector>()
                                  .Ret<Vector>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(rows_softmax, Softmax,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Matrix>()
                                  .Arg<Mask>()
                                  .Arg<Scalar>()
                                  .Arg<Vector>()
                                  .Arg<Scalar>()
                                  .Ret<Matrix>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(rows_top_label, TopLabel,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Matrix>()
                                  .Arg<Integer>()
                                  .Ret<Labels>()
                                  .Ret<Vector>()
                                  .Ret<Vector>()
                                  .Ret<Vector>());
