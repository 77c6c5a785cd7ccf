//! Passes over memory: activations, losses, sums, and blocks of columns.

use super::{Check, Result, size};
use crate::{Buffer, Device, Stored};
use ground::random::RandomSequence;

/// A block of columns copied from one matrix to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnCopy {
    /// First column in the source.
    pub from: usize,
    /// First column in the destination.
    pub to: usize,
    /// Number of columns.
    pub width: usize,
}

/// A matrix that lies in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Buffer that holds the matrix.
    pub buffer: &'a Buffer<f32>,
    /// First element of the matrix in the buffer.
    pub at: usize,
    /// Number of elements of a row.
    pub width: usize,
}

/// A matrix that lies in a buffer, to be written.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    /// Buffer that holds the matrix.
    pub buffer: &'a mut Buffer<f32>,
    /// First element of the matrix in the buffer.
    pub at: usize,
    /// Number of elements of a row.
    pub width: usize,
}

impl<'a> Matrix<'a> {
    /// Elements of the first `rows` rows, on the host.
    pub(crate) fn rows(&self, rows: usize) -> &'a [f32] {
        &self.buffer.host()[self.at..][..rows * self.width]
    }
}

impl<'a> MatrixMut<'a> {
    /// Elements of the first `rows` rows, on the host, to be written.
    pub(crate) fn rows(self, rows: usize) -> &'a mut [f32] {
        &mut self.buffer.host_mut()[self.at..][..rows * self.width]
    }
}

/// Arguments of [`Device::bce`].
#[derive(Debug)]
pub struct Bce<'a> {
    /// Number of losses: samples × labels.
    pub rows: usize,
    /// Logits, row by row.
    pub logits: &'a Buffer<f32>,
    /// Labels, 0 or 1, as the logits.
    pub labels: &'a Buffer<f32>,
    /// Weight of each loss; `None` for losses that all count 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Label smoothing ε: losses and gradients are of labels `y·(1 − ε) + ε/2`. 0 for the labels as they are.
    pub smoothing: f32,
    /// Factor of every gradient: 1 / samples of the whole batch for the gradient of the mean loss.
    pub scale: f32,
    /// Receives the gradient of each logit.
    pub dlogits: &'a mut Buffer<f32>,
    /// Receives the sum of all losses: one element.
    pub loss: &'a mut Buffer<f64>,
    /// Receives the predicted probability of each logit, as [`Device::sigmoid`] computes it; `None` where nobody asks for them.
    pub probabilities: Option<&'a mut Buffer<f32>>,
}

/// Arguments of [`Device::dropout`].
#[derive(Debug)]
pub struct Dropout<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Number of units of a sample.
    pub width: usize,
    /// Position of the first sample, whatever rank it is on.
    pub first: u64,
    /// Random numbers of the layer, by position.
    pub sequence: RandomSequence,
    /// Probability with which a unit is dropped, in `[0, 1)`.
    pub probability: f32,
    /// Outputs of the units, rows × width, which are changed in place.
    pub y: &'a mut Buffer<f32>,
}

impl Dropout<'_> {
    /// Words below this number drop their unit.
    pub(crate) fn below(&self) -> u32 {
        (f64::from(self.probability) * 4_294_967_296.0) as u32
    }

    /// Factor of units that are kept: `1/(1 − probability)`.
    pub(crate) fn scale(&self) -> f32 {
        1.0 / (1.0 - self.probability)
    }
}

impl Device {
    /// Gradient of a ReLU: `dy = 0` where the ReLU gave `y ≤ 0`, for the first `len` elements.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let y = Buffer::from_slice(&device, &[0.0, 3.0])?;
    /// let mut dy = Buffer::from_slice(&device, &[7.0, 7.0])?;
    /// device.relu_backward(2, &y, &mut dy)?;
    /// assert_eq!(dy.to_vec()?, [0.0, 7.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
        let check = Check::new("relu_backward", self);
        check.buffer("y", y, len)?;
        check.buffer("dy", dy, len)?;
        self.backend().relu_backward(len, y, dy)
    }

    /// Sum in place: `y += x`, for the first `len` elements.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let x = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// let mut y = Buffer::from_slice(&device, &[10.0, 20.0])?;
    /// device.add(2, &x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [11.0, 22.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
        let check = Check::new("add", self);
        check.buffer("x", x, len)?;
        check.buffer("y", y, len)?;
        self.backend().add(len, x, y)
    }

    /// Scales in place: `y *= factor`, for the first `len` elements.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let mut y = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// device.scale(2, 0.5, &mut y)?;
    /// assert_eq!(y.to_vec()?, [0.5, 1.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn scale(&self, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result {
        Check::new("scale", self).buffer("y", y, len)?;
        self.backend().scale(len, factor, y)
    }

    /// Inverted dropout: `y[r, u] = 0` with probability p, else `y[r, u]/(1 − p)`. Unit `u` of row `r` is dropped where
    /// [`word`](ground::random::word)`(sequence.bits(first + r), u) < p·2³²`, so that no bit depends on how samples and units are
    /// divided.
    ///
    /// ```
    /// use kernels::{Buffer, Device, Dropout};
    /// use ground::random::RandomSequence;
    /// let device = Device::cpu(1)?;
    /// let mut y = Buffer::from_slice(&device, &[1.0; 1000])?;
    /// let sequence = RandomSequence::new(7, "dropout.top.0");
    /// let args = Dropout { rows: 10, width: 100, first: 0, sequence, probability: 0.75, y: &mut y };
    /// device.dropout(args)?;
    /// let kept = y.to_vec()?.into_iter().filter(|&y| y == 4.0).count();
    /// assert!((200..300).contains(&kept));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn dropout(&self, args: Dropout) -> Result {
        Check::new("dropout", self).buffer("y", args.y, size([args.rows, args.width]))?;
        self.backend().dropout(args)
    }

    /// Binary cross-entropy on logits, for logit `x`, label `y` and weight `w` (1 where there are none):
    ///
    /// ```text
    /// loss    = w·(max(x, 0) − x·y + ln(1 + e^−|x|))
    /// dlogit  = (σ(x) − y)·scale·w
    /// ```
    ///
    /// In training `w` of a sample and a label is the weight of the sample × the weight of clicks where the label is 1 × the
    /// weight of the label's loss. `loss` receives the *sum* of all losses, added in order in double precision; on a device that
    /// computes nothing it has no contents.
    ///
    /// ```
    /// use kernels::{Bce, Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let (logits, labels) = (Buffer::from_slice(&device, &[0.0])?, Buffer::from_slice(&device, &[1.0])?);
    /// let (mut dlogits, mut loss) = (Buffer::zeroed(&device, 1)?, Buffer::zeroed(&device, 1)?);
    /// let (smoothing, scale) = (0.0, 1.0);
    /// let (logits, labels, weights, probabilities) = (&logits, &labels, None, None);
    /// let (d, l) = (&mut dlogits, &mut loss);
    /// device.bce(Bce { rows: 1, logits, labels, weights, smoothing, scale, dlogits: d, loss: l, probabilities })?;
    /// assert_eq!((loss.to_vec()?, dlogits.to_vec()?), (vec![2f64.ln()], vec![-0.5]));
    /// let three = Buffer::from_slice(&device, &[3.0])?;
    /// let weights = Some(&three);
    /// let (d, l, mut p) = (&mut dlogits, &mut loss, Buffer::zeroed(&device, 1)?);
    /// let probabilities = Some(&mut p);
    /// device.bce(Bce { rows: 1, logits, labels, weights, smoothing, scale, dlogits: d, loss: l, probabilities })?;
    /// assert_eq!(p.to_vec()?, [0.5]);
    /// assert_eq!((loss.to_vec()?, dlogits.to_vec()?), (vec![3.0 * 2f64.ln()], vec![-1.5]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn bce(&self, args: Bce) -> Result {
        let check = Check::new("bce", self);
        check.buffer("logits", args.logits, args.rows)?;
        check.buffer("labels", args.labels, args.rows)?;
        check.buffer("dlogits", args.dlogits, args.rows)?;
        check.buffer("loss", args.loss, 1)?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, args.rows)?;
        }
        if let Some(probabilities) = &args.probabilities {
            check.buffer("probabilities", probabilities, args.rows)?;
        }
        self.backend().bce(args)
    }

    /// Logistic function: `out[r] = 1 / (1 + e^−logits[r])`, for the first `rows` elements.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let logits = Buffer::from_slice(&device, &[0.0, 1000.0])?;
    /// let mut out = Buffer::zeroed(&device, 2)?;
    /// device.sigmoid(2, &logits, &mut out)?;
    /// assert_eq!(out.to_vec()?, [0.5, 1.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        let check = Check::new("sigmoid", self);
        check.buffer("logits", logits, rows)?;
        check.buffer("out", out, rows)?;
        self.backend().sigmoid(rows, logits, out)
    }

    /// Copies blocks of columns: `to[r, c.to + i] = from[r, c.from + i]` for every copy `c` and each of `rows` rows. On a GPU `to` may
    /// be stored as rows of bf16.
    ///
    /// ```
    /// use kernels::{Buffer, ColumnCopy, Device, Matrix, MatrixMut};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1.0, 2.0, 3.0, 4.0])?;
    /// let mut to = Buffer::zeroed(&device, 2)?;
    /// let second = [ColumnCopy { from: 1, to: 0, width: 1 }];
    /// let from = Matrix { buffer: &from, at: 0, width: 2 };
    /// device.copy_columns(2, &second, from, MatrixMut { buffer: &mut to, at: 0, width: 1 })?;
    /// assert_eq!(to.to_vec()?, [2.0, 4.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn copy_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let check = Check::new("copy_columns", self);
        if to.buffer.stored() == Stored::Plain {
            check.buffer("to", to.buffer, to.at.saturating_add(size([rows, to.width])))?;
        } else {
            check.equal("first element of rows", 0, to.at)?;
            check.rows("to", to.buffer, rows, to.width)?;
        }
        check_columns(&check, rows, copies, from, &to)?;
        self.backend().copy_columns(rows, copies, from, to)
    }

    /// Adds blocks of columns: `to[r, c.to + i] += from[r, c.from + i]` for every copy `c` and each of `rows` rows.
    ///
    /// ```
    /// use kernels::{Buffer, ColumnCopy, Device, Matrix, MatrixMut};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// let mut to = Buffer::from_slice(&device, &[10.0])?;
    /// let both = [0, 1].map(|from| ColumnCopy { from, to: 0, width: 1 });
    /// let from = Matrix { buffer: &from, at: 0, width: 2 };
    /// device.add_columns(1, &both, from, MatrixMut { buffer: &mut to, at: 0, width: 1 })?;
    /// assert_eq!(to.to_vec()?, [13.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn add_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let check = Check::new("add_columns", self);
        check.buffer("to", to.buffer, to.at.saturating_add(size([rows, to.width])))?;
        check_columns(&check, rows, copies, from, &to)?;
        self.backend().add_columns(rows, copies, from, to)
    }

    /// Copies `rows` rows of `width` floats. Each buffer stores them in its own way.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// let mut to = Buffer::new(&device);
    /// to.resize_rows(device.keeps(2), 1, 2)?;
    /// device.copy_rows(1, 2, &from, &mut to)?;
    /// assert_eq!(to.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn copy_rows(&self, rows: usize, width: usize, from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result {
        let check = Check::new("copy_rows", self);
        check.rows("from", from, rows, width)?;
        check.rows("to", to, rows, width)?;
        self.backend().copy_rows(rows, width, from, to)
    }

    /// Sum of all elements, in no particular order: a streaming read of the buffer, for measurements. `None` on a device
    /// that computes nothing.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// assert_eq!(device.sum(&Buffer::from_slice(&device, &[1.0, 2.5])?)?, Some(3.5));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sum(&self, x: &Buffer<f32>) -> Result<Option<f64>> {
        Check::new("sum", self).buffer("x", x, 0)?;
        self.backend().sum(x)
    }
}

/// Refuses a source that is too short, and blocks of columns that do not fit their matrices.
fn check_columns(check: &Check, rows: usize, copies: &[ColumnCopy], from: Matrix, to: &MatrixMut) -> Result {
    check.buffer("from", from.buffer, from.at.saturating_add(size([rows, from.width])))?;
    for copy in copies {
        check.count("a row of from", copy.from.saturating_add(copy.width), from.width)?;
        check.count("a row of to", copy.to.saturating_add(copy.width), to.width)?;
    }
    Ok(())
}
