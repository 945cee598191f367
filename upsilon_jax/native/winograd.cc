// 3×3 convolutions of images by Winograd's F(2×2, 3×3), as custom calls of XLA:CPU.
//
// A tile of 2×2 outputs comes from the 4×4 inputs d around it and the 3×3 weights g:
//
//     Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A
//
// which takes 16 products where the plain sum takes 36. The products of many tiles and
// channels are 16 matrix products, computed for as many tiles as a core's cache holds.
// The weight gradient is the transpose of the same formula:
//
//     dg = Gᵀ [ Σ_tiles (Bᵀ d B) ⊗ (A dY Aᵀ) ] G
//
// Images are [N, H, W, channels], weights [3, 3, in, out], padding is "SAME", and the
// numbers of channels are multiples of kLanes.

#include <array>
#include <vector>

#include "multiply.h"
#include "vectors.h"

namespace ffi = xla::ffi;

namespace {

constexpr int kPoints = 16;               // products of a tile
constexpr int64_t kCacheFloats = 1 << 17;  // of a core's cache, for transformed tiles

using Vec4 = std::array<Vec, 4>;

// The factors of one dimension.
Vec4 InputFactor(const Vec4& d) {  // Bᵀ d
  return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
}
Vec4 OutputGradientFactor(Vec y0, Vec y1) {  // A y
  return {y0, y0 + y1, y0 - y1, -y1};
}
std::array<Vec, 2> OutputFactor(const Vec4& m) {  // Aᵀ m
  return {m[0] + m[1] + m[2], m[1] - m[2] - m[3]};
}
Vec4 WeightFactor(Vec g0, Vec g1, Vec g2) {  // G g
  return {g0, 0.5f * (g0 + g1 + g2), 0.5f * (g0 - g1 + g2), g2};
}
std::array<Vec, 3> WeightGradientFactor(const Vec4& u) {  // Gᵀ u
  return {u[0] + 0.5f * (u[1] + u[2]), 0.5f * (u[1] - u[2]),
          0.5f * (u[1] + u[2]) + u[3]};
}

// Where the tiles of [N, H, W, channels] images lie.
struct Tiles {
  int64_t images, height, width;
  int64_t down = (height + 1) / 2, across = (width + 1) / 2;
  int64_t count = images * down * across;

  // Addresses of the pixels at (row, column) to (row + S - 1, column + S - 1) of a tile,
  // counted from its first output; `outside` for those outside the image.
  template <int S, typename T>
  std::array<T*, S * S> Pixels(int64_t tile, int row, int column, T* images_,
                               int64_t channels, T* outside) const {
    const int64_t h = tile / across % down * 2 + row, w = tile % across * 2 + column;
    T* image = images_ + tile / (across * down) * height * width * channels;
    std::array<T*, S * S> pixels;
    for (int r = 0; r < S; ++r) {
      for (int s = 0; s < S; ++s) {
        const bool inside =
            h + r >= 0 && h + r < height && w + s >= 0 && w + s < width;
        pixels[r * S + s] =
            inside ? image + ((h + r) * width + w + s) * channels : outside;
      }
    }
    return pixels;
  }
};

// Transformed tiles are [16, tiles, channels]: `step` floats from point to point.

void TransformInput(const std::array<const float*, 16>& d, int64_t channels, float* v,
                    int64_t step) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vec4 rows[4];
    for (int s = 0; s < 4; ++s) {
      const Vec4 column = InputFactor({Load(d[s] + c), Load(d[4 + s] + c),
                                       Load(d[8 + s] + c), Load(d[12 + s] + c)});
      for (int r = 0; r < 4; ++r) rows[r][s] = column[r];
    }
    for (int r = 0; r < 4; ++r) {
      const Vec4 row = InputFactor(rows[r]);
      for (int s = 0; s < 4; ++s) Store(v + (4 * r + s) * step + c, row[s]);
    }
  }
}

void TransformOutput(const float* m, int64_t step, int64_t channels,
                     const std::array<float*, 4>& y) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Vec4 rows[2];
    for (int s = 0; s < 4; ++s) {
      Vec4 column;
      for (int r = 0; r < 4; ++r) column[r] = Load(m + (4 * r + s) * step + c);
      const auto sums = OutputFactor(column);
      rows[0][s] = sums[0];
      rows[1][s] = sums[1];
    }
    for (int r = 0; r < 2; ++r) {
      const auto sums = OutputFactor(rows[r]);
      Store(y[2 * r] + c, sums[0]);
      Store(y[2 * r + 1] + c, sums[1]);
    }
  }
}

void TransformOutputGradient(const std::array<const float*, 4>& y, int64_t channels,
                             float* m, int64_t step) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const Vec4 left = OutputGradientFactor(Load(y[0] + c), Load(y[2] + c));
    const Vec4 right = OutputGradientFactor(Load(y[1] + c), Load(y[3] + c));
    for (int r = 0; r < 4; ++r) {
      const Vec4 row = OutputGradientFactor(left[r], right[r]);
      for (int s = 0; s < 4; ++s) Store(m + (4 * r + s) * step + c, row[s]);
    }
  }
}

// u [16, size] from g [9, size].
void TransformWeights(const float* g, int64_t size, float* u) {
  for (int64_t c = 0; c < size; c += kLanes) {
    Vec4 columns[3];
    for (int s = 0; s < 3; ++s) {
      columns[s] = WeightFactor(Load(g + s * size + c), Load(g + (3 + s) * size + c),
                                Load(g + (6 + s) * size + c));
    }
    for (int r = 0; r < 4; ++r) {
      const Vec4 row = WeightFactor(columns[0][r], columns[1][r], columns[2][r]);
      for (int s = 0; s < 4; ++s) Store(u + (4 * r + s) * size + c, row[s]);
    }
  }
}

// g [9, size] from u [16, size].
void TransformWeightGradient(const float* u, int64_t size, float* g) {
  for (int64_t c = 0; c < size; c += kLanes) {
    std::array<Vec, 3> columns[4];
    for (int s = 0; s < 4; ++s) {
      Vec4 column;
      for (int r = 0; r < 4; ++r) column[r] = Load(u + (4 * r + s) * size + c);
      columns[s] = WeightGradientFactor(column);
    }
    for (int r = 0; r < 3; ++r) {
      const auto row = WeightGradientFactor(
          {columns[0][r], columns[1][r], columns[2][r], columns[3][r]});
      for (int s = 0; s < 3; ++s) Store(g + (3 * r + s) * size + c, row[s]);
    }
  }
}

using Images = ffi::Buffer<ffi::F32, 4>;
using Weights = ffi::Buffer<ffi::F32, 4>;

Tiles TilesOf(const Images& x) {
  const auto shape = x.dimensions();
  return {shape[0], shape[1], shape[2]};
}

// As many tiles as are transformed at a time.
int64_t BlockSize(int64_t channels) {
  return std::max<int64_t>(kRows, kCacheFloats / (kPoints * channels) / kRows * kRows);
}

// BlockSize divides by it, and registers are loaded whole.
bool WholeRegisters(int64_t channels) { return channels > 0 && channels % kLanes == 0; }

ffi::Error Convolve(ffi::ThreadPool pool, Images x, Weights weights,
                    ffi::Result<Images> y) {
  const Tiles tiles = TilesOf(x);
  const int64_t in = weights.dimensions()[2], out = weights.dimensions()[3];
  REQUIRE(HasShape(weights, {3, 3, in, out}),
          "winograd_convolve: the weights must be [3, 3, in, out]");
  REQUIRE(WholeRegisters(in) && WholeRegisters(out),
          "winograd_convolve: the numbers of channels must be multiples of a register");
  REQUIRE(HasShape(x, {tiles.images, tiles.height, tiles.width, in}),
          "winograd_convolve: images and weights differ in their channels");
  REQUIRE(HasShape(*y, {tiles.images, tiles.height, tiles.width, out}),
          "winograd_convolve: the result must be [N, H, W, out]");
  std::vector<float> u(kPoints * in * out);
  TransformWeights(weights.typed_data(), in * out, u.data());
  const int64_t block = BlockSize(in + out);
  const float* from = x.typed_data();
  float* to = y->typed_data();
  const std::vector<float> zeros(in);
  ParallelFor(pool, (tiles.count + block - 1) / block, [&](int64_t index) {
    const int64_t first = index * block, count = std::min(block, tiles.count - first);
    static thread_local std::vector<float> scratch;
    scratch.resize(kPoints * block * (in + out) + out);
    float* v = scratch.data();
    float* m = v + kPoints * count * in;
    float* unused = m + kPoints * count * out;
    for (int64_t t = 0; t < count; ++t) {
      TransformInput(tiles.Pixels<4>(first + t, -1, -1, from, in, zeros.data()), in,
                     v + t * in, count * in);
    }
    for (int p = 0; p < kPoints; ++p) {
      Multiply(count, out, in, v + p * count * in, in, 1, u.data() + p * in * out,
               m + p * count * out, false);
    }
    for (int64_t t = 0; t < count; ++t) {
      TransformOutput(m + t * out, count * out, out,
                      tiles.Pixels<2>(first + t, 0, 0, to, out, unused));
    }
  });
  return ffi::Error::Success();
}

ffi::Error WeightGradient(ffi::ThreadPool pool, Images x, Images dy,
                          ffi::Result<Weights> gradient) {
  const Tiles tiles = TilesOf(x);
  const int64_t in = x.dimensions()[3], out = dy.dimensions()[3];
  REQUIRE(WholeRegisters(in) && WholeRegisters(out),
          "winograd_weight_gradient: the numbers of channels must be multiples of a "
          "register");
  REQUIRE(HasShape(dy, {tiles.images, tiles.height, tiles.width, out}),
          "winograd_weight_gradient: the images and their gradients differ in size");
  REQUIRE(HasShape(*gradient, {3, 3, in, out}),
          "winograd_weight_gradient: the result must be [3, 3, in, out]");
  const int64_t size = kPoints * in * out;
  const int64_t block = BlockSize(in + out);
  const int64_t blocks = (tiles.count + block - 1) / block;
  // Every thread's share of the blocks has its own sum, so that the order of additions
  // does not depend on which thread is faster. It does on the number of threads.
  const int64_t shares = std::max<int64_t>(1, std::min(pool.num_threads(), blocks));
  std::vector<float> sums(shares * size);
  const std::vector<float> zeros(std::max(in, out));
  const float* images = x.typed_data();
  const float* gradients = dy.typed_data();
  ParallelFor(pool, shares, [&](int64_t share) {
    static thread_local std::vector<float> scratch;
    scratch.resize(kPoints * block * (in + out));
    float* v = scratch.data();
    float* m = v + kPoints * block * in;
    float* sum = sums.data() + share * size;
    const int64_t end = tiles.count * (share + 1) / shares;
    for (int64_t first = tiles.count * share / shares; first < end; first += block) {
      const int64_t count = std::min(block, end - first);
      for (int64_t t = 0; t < count; ++t) {
        TransformInput(tiles.Pixels<4>(first + t, -1, -1, images, in, zeros.data()), in,
                       v + t * in, block * in);
        TransformOutputGradient(
            tiles.Pixels<2>(first + t, 0, 0, gradients, out, zeros.data()), out,
            m + t * out, block * out);
      }
      for (int p = 0; p < kPoints; ++p) {
        Multiply(in, out, count, v + p * block * in, 1, in, m + p * block * out,
                 sum + p * in * out, true);
      }
    }
  });
  for (int64_t share = 1; share < shares; ++share) {
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[share * size + i];
  }
  TransformWeightGradient(sums.data(), in * out, gradient->typed_data());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    winograd_convolve, Convolve,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Images>().Arg<Weights>().Ret<Images>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(winograd_weight_gradient, WeightGradient,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Images>()
                                  .Arg<Images>()
                                  .Ret<Weights>());
