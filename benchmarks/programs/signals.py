"""Spectra, filters and images, as textbooks of signal processing have them for NumPy."""

import numpy as np


def fft_recursive(x):
    """The transform by halves, as it is taught."""
    n = len(x)
    if n == 1:
        return x.astype(complex)
    even = fft_recursive(x[::2])
    odd = fft_recursive(x[1::2])
    factor = np.exp(-2j * np.pi * np.arange(n) / n)
    return np.concatenate([even + factor[: n // 2] * odd, even + factor[n // 2 :] * odd])


def power_spectrum(x, rate=100.0):
    """A windowed periodogram and where it is greatest."""
    n = len(x)
    window = np.hanning(n)
    spectrum = np.fft.rfft((x - x.mean()) * window)
    power = np.abs(spectrum) ** 2 / (rate * np.sum(window**2))
    power[1:-1] *= 2
    freqs = np.fft.rfftfreq(n, d=1 / rate)
    return freqs, power, freqs[np.argmax(power)]


def lowpass(x):
    """A signal without its high frequencies."""
    spectrum = np.fft.fft(x)
    freqs = np.fft.fftfreq(len(x), d=0.01)
    spectrum[np.abs(freqs) > 10] = 0
    return np.real(np.fft.ifft(spectrum))


def fast_convolution(a, b):
    """A convolution through transforms of padded signals."""
    n = len(a) + len(b) - 1
    size = 1
    while size < n:
        size *= 2
    return np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:n]


def spectral_derivative(u):
    """The first and second derivatives of a periodic function."""
    n = len(u)
    k = np.fft.fftfreq(n, 1.0 / n)
    uhat = np.fft.fft(u)
    return np.fft.ifft(1j * k * uhat).real, np.fft.ifft(-(k**2) * uhat).real


def autocorrelation(x):
    """By the theorem of Wiener and Khinchin."""
    n = x.size
    f = np.fft.fft(x - np.mean(x), n=2 * n)
    acf = np.fft.ifft(f * np.conjugate(f))[:n].real
    return acf / acf[0]


def hilbert_envelope(x):
    """The envelope and the phase of the analytic signal."""
    n = len(x)
    h = np.zeros(n)
    h[0] = 1
    if n % 2 == 0:
        h[n // 2] = 1
        h[1 : n // 2] = 2
    else:
        h[1 : (n + 1) // 2] = 2
    analytic = np.fft.ifft(np.fft.fft(x) * h)
    return np.abs(analytic), np.unwrap(np.angle(analytic))


def spectrogram(x, size=16, hop=8):
    """Decibels of frames that overlap."""
    frames = np.stack([x[i : i + size] for i in range(0, len(x) - size + 1, hop)])
    spectra = np.fft.rfft(frames * np.hamming(size), axis=1)
    return 20 * np.log10(np.abs(spectra) + 1e-6)


def image_lowpass(img):
    """A round mask in the shifted spectrum of an image."""
    rows, cols = img.shape
    spectrum = np.fft.fftshift(np.fft.fft2(img))
    y, x = np.ogrid[:rows, :cols]
    mask = (y - rows // 2) ** 2 + (x - cols // 2) ** 2 <= 4
    return np.abs(np.fft.ifft2(np.fft.ifftshift(spectrum * mask)))


def phase_correlation(a, b):
    """By how much one image is moved against the other."""
    cross = np.fft.fft2(a) * np.conj(np.fft.fft2(b))
    cross /= np.abs(cross) + 1e-12
    correlation = np.fft.ifft2(cross).real
    return np.unravel_index(np.argmax(correlation), correlation.shape)


def goertzel(x):
    """The power of one frequency by a recursion."""
    n = len(x)
    coeff = 2.0 * np.cos(2 * np.pi * 3 / n)
    s_prev, s_prev2 = 0.0, 0.0
    for sample in x:
        s = sample + coeff * s_prev - s_prev2
        s_prev2 = s_prev
        s_prev = s
    return s_prev2**2 + s_prev**2 - coeff * s_prev * s_prev2


def biquad(x):
    """A recursive filter of second order, sample by sample."""
    b = np.array([0.2, 0.4, 0.2])
    a = np.array([1.0, -0.4, 0.2])
    y = np.zeros_like(x)
    for n in range(len(x)):
        y[n] = b[0] * x[n]
        if n >= 1:
            y[n] += b[1] * x[n - 1] - a[1] * y[n - 1]
        if n >= 2:
            y[n] += b[2] * x[n - 2] - a[2] * y[n - 2]
    return y


def mandelbrot(xs, ys, steps=20):
    """How long the iteration of each point stays within the circle."""
    c = xs[np.newaxis, :] + 1j * ys[:, np.newaxis]
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=int)
    for _ in range(steps):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        counts[inside] += 1
    return counts


def julia(grid):
    """Smooth colours of a set of Julia."""
    z = grid[..., 0] + 1j * grid[..., 1]
    c = complex(-0.4, 0.6)
    colour = np.zeros(z.shape)
    for _ in range(8):
        z = np.where(np.abs(z) < 10, z * z + c, z)
        colour += np.exp(-np.abs(z))
    return colour


def cosine_transform(x):
    """The DCT of type II through a transform of the mirrored signal."""
    n = len(x)
    mirrored = np.concatenate((x, x[::-1]))
    k = np.arange(n)
    return (np.fft.fft(mirrored)[:n] * np.exp(-1j * np.pi * k / (2 * n))).real / 2


def real_cepstrum(x):
    """The spectrum of the logarithm of a spectrum."""
    return np.fft.ifft(np.log(np.abs(np.fft.fft(x)) + 1e-3)).real


def windowed_sinc(x):
    """A lowpass by a windowed sinc, and its response."""
    n = np.arange(11) - 5
    taps = 0.4 * np.sinc(0.4 * n) * np.blackman(11)
    taps /= taps.sum()
    response = np.abs(np.fft.rfft(taps, 32))
    return np.convolve(x, taps, "same"), response


def harris_corners(img):
    """The response of a detector of corners."""
    dy, dx = np.gradient(img)

    def smooth(m):
        p = np.pad(m, 1, mode="edge")
        h, w = m.shape
        return sum(p[i : i + h, j : j + w] for i in range(3) for j in range(3)) / 9

    xx, yy, xy = smooth(dx * dx), smooth(dy * dy), smooth(dx * dy)
    return xx * yy - xy**2 - 0.05 * (xx + yy) ** 2


def non_max_suppression(boxes, scores, threshold=0.3):
    """Boxes that no better box covers."""
    x1, y1, x2, y2 = boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3]
    areas = (x2 - x1) * (y2 - y1)
    order = scores.argsort()[::-1]
    keep = np.ones(len(scores), dtype=bool)
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            a, b = order[i], order[j]
            w = np.maximum(0.0, np.minimum(x2[a], x2[b]) - np.maximum(x1[a], x1[b]))
            h = np.maximum(0.0, np.minimum(y2[a], y2[b]) - np.maximum(y1[a], y1[b]))
            iou = w * h / (areas[a] + areas[b] - w * h)
            keep[b] = keep[b] & ~(keep[a] & (iou > threshold))
    return keep


def floyd_steinberg(img):
    """Black and white, with errors handed on to the pixels behind."""
    out = np.pad(img, ((0, 1), (1, 1)))
    h, w = img.shape
    for y in range(h):
        for x in range(1, w + 1):
            old = out[y, x]
            new = np.round(old)
            out[y, x] = new
            err = old - new
            out[y, x + 1] += err * 7 / 16
            out[y + 1, x - 1] += err * 3 / 16
            out[y + 1, x] += err * 5 / 16
            out[y + 1, x + 1] += err * 1 / 16
    return out[:h, 1 : w + 1]


def opening(img):
    """An erosion, then a dilation, of a binary image."""
    k = 3

    def erode(m):
        p = np.pad(m, k // 2, constant_values=True)
        view = np.lib.stride_tricks.sliding_window_view(p, (k, k))
        return view.all(axis=(-2, -1))

    eroded = erode(img > 0)
    return ~erode(~eroded)


def label_components(img):
    """Labels of connected pixels: the least number among neighbours, until nothing changes."""
    mask = img > 0
    labels = np.where(mask, np.arange(1, img.size + 1).reshape(img.shape), 0)
    while True:
        p = np.pad(np.where(mask, labels, img.size + 1), 1, constant_values=img.size + 1)
        best = np.minimum.reduce(
            [p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]
        )
        new = np.where(mask, best, 0)
        if np.array_equal(new, labels):
            return labels
        labels = new


def hough_lines(points):
    """Votes of points for lines by angle and distance."""
    thetas = np.deg2rad(np.arange(-90, 90, 15))
    votes = np.zeros((41, len(thetas)), dtype=np.int64)
    for x, y in points:
        rho = np.round(x * np.cos(thetas) + y * np.sin(thetas)).astype(int) + 20
        np.add.at(votes, (rho, np.arange(len(thetas))), 1)
    return votes


def box_filter(img, r=1):
    """Means of boxes out of an integral image."""
    h, w = img.shape
    s = np.zeros((h + 1, w + 1))
    s[1:, 1:] = img.cumsum(axis=0).cumsum(axis=1)
    k = 2 * r + 1
    return (s[k:, k:] - s[:-k, k:] - s[k:, :-k] + s[:-k, :-k]) / k**2


def haar_wavelet(x):
    """Two levels of Haar's wavelet and back."""
    coeffs = []
    approx = x
    for _ in range(2):
        a = (approx[0::2] + approx[1::2]) / np.sqrt(2)
        d = (approx[0::2] - approx[1::2]) / np.sqrt(2)
        coeffs.append(d)
        approx = a
    packed = np.hstack([approx] + coeffs[::-1])
    packed = np.where(np.abs(packed) < 0.3, 0, packed)
    a, pos = packed[: len(approx)], len(approx)
    while pos < len(x):
        d = packed[pos : 2 * pos]
        up = np.empty(2 * pos)
        up[0::2] = (a + d) / np.sqrt(2)
        up[1::2] = (a - d) / np.sqrt(2)
        a, pos = up, 2 * pos
    return packed, a


def bilateral(img, sigma_s=1.0, sigma_r=0.5):
    """A filter that keeps edges."""
    r = 2
    h, w = img.shape
    p = np.pad(img, r, mode="symmetric")
    total, weight = np.zeros_like(img), np.zeros_like(img)
    for dy in range(-r, r + 1):
        for dx in range(-r, r + 1):
            moved = p[r + dy : r + dy + h, r + dx : r + dx + w]
            g = np.exp(-(dx**2 + dy**2) / (2 * sigma_s**2) - (moved - img) ** 2 / (2 * sigma_r**2))
            total += g * moved
            weight += g
    return total / weight


def lucas_kanade(before, after):
    """The motion of a patch by least squares."""
    iy, ix = np.gradient(before)
    it = after - before
    A = np.vstack((ix.ravel(), iy.ravel())).T
    flow, residual, rank, _ = np.linalg.lstsq(A, -it.ravel(), rcond=None)
    return flow, residual, rank


def match_histogram(source, template):
    """An image with the distribution of another."""
    s_values, s_index, s_counts = np.unique(source.ravel(), return_inverse=True, return_counts=True)
    t_values, t_counts = np.unique(template.ravel(), return_counts=True)
    s_quantiles = np.cumsum(s_counts) / source.size
    t_quantiles = np.cumsum(t_counts) / template.size
    return np.interp(s_quantiles, t_quantiles, t_values)[s_index].reshape(source.shape)


def _boxes(r):
    corner = r.uniform(0, 5, (6, 2))
    return np.hstack((corner, corner + r.uniform(1, 4, (6, 2)))), r.uniform(size=6)


PROGRAMS = [
    (fft_recursive, lambda r: (r.normal(size=8),), True),
    (power_spectrum, lambda r: (r.normal(size=32),), True),
    (lowpass, lambda r: (r.normal(size=50),), True),
    (fast_convolution, lambda r: (r.normal(size=13), r.normal(size=6)), True),
    (spectral_derivative, lambda r: (r.normal(size=16),), True),
    (autocorrelation, lambda r: (r.normal(size=15),), True),
    (hilbert_envelope, lambda r: (r.normal(size=17),), True),
    (spectrogram, lambda r: (r.normal(size=48),), True),
    (image_lowpass, lambda r: (r.normal(size=(8, 9)),), True),
    (phase_correlation, lambda r: (a := r.normal(size=(8, 8)), np.roll(a, (2, 3), (0, 1))), False),
    (goertzel, lambda r: (r.normal(size=20),), True),
    (biquad, lambda r: (r.normal(size=12),), True),
    (mandelbrot, lambda r: (np.linspace(-2, 0.5, 9), np.linspace(-1.1, 1.1, 7)), False),
    (julia, lambda r: (r.uniform(-1, 1, (5, 6, 2)),), True),
    (cosine_transform, lambda r: (r.normal(size=9),), True),
    (real_cepstrum, lambda r: (r.normal(size=16),), True),
    (windowed_sinc, lambda r: (r.normal(size=30),), True),
    (harris_corners, lambda r: (r.normal(size=(7, 8)),), True),
    (non_max_suppression, _boxes, False),
    (floyd_steinberg, lambda r: (r.uniform(size=(4, 5)),), False),
    (opening, lambda r: (1.0 * (r.uniform(size=(8, 9)) > 0.3),), False),
    (label_components, lambda r: ((r.uniform(size=(6, 7)) > 0.4).astype(int),), False),
    (hough_lines, lambda r: (r.uniform(-10, 10, (7, 2)),), False),
    (box_filter, lambda r: (r.normal(size=(6, 7)),), True),
    (haar_wavelet, lambda r: (r.normal(size=16),), True),
    (bilateral, lambda r: (r.normal(size=(5, 6)),), True),
    (lucas_kanade, lambda r: (r.normal(size=(6, 6)), r.normal(size=(6, 6))), True),
    (match_histogram, lambda r: (r.integers(0, 8, (5, 6)), r.integers(3, 12, (4, 7))), False),
]  # fmt: skip
