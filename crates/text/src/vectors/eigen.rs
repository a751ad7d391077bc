//! Eigenvalues and eigenvectors of small symmetric matrices, by the method of Jacobi.
//!
//! Each rotation makes one element off the diagonal zero; a sweep rotates all. Cost: a few sweeps
//! of 6 n^3 multiplications, for matrices of up to 72 rows. Tested by what defines an eigenvector.

const SWEEPS_MAX: u32 = 60;

/// The eigenvalues of a symmetric matrix, largest first, and their eigenvectors of length 1.
pub(crate) fn eigenvectors(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = matrix.len();
    // Row k becomes the eigenvector of the k-th element on the diagonal.
    let mut vectors: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect();
    let total: f64 = matrix.iter().flatten().map(|x| x * x).sum();
    for _ in 0..SWEEPS_MAX {
        let off: f64 = (0..n).map(|i| (0..i).map(|j| matrix[i][j].powi(2)).sum::<f64>()).sum();
        if off <= 1e-30 * total {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut matrix, &mut vectors, p, q);
            }
        }
    }
    let mut pairs: Vec<(f64, Vec<f64>)> = (0..n).map(|k| matrix[k][k]).zip(vectors).collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    pairs.into_iter().unzip()
}

/// Makes the elements (p, q) and (q, p) zero.
fn rotate(matrix: &mut [Vec<f64>], vectors: &mut [Vec<f64>], p: usize, q: usize) {
    let apart = matrix[p][q];
    if apart == 0.0 {
        return;
    }
    let slope = (matrix[q][q] - matrix[p][p]) / (2.0 * apart);
    let tangent = slope.signum() / (slope.abs() + (slope * slope + 1.0).sqrt());
    let cosine = (tangent * tangent + 1.0).sqrt().recip();
    let sine = tangent * cosine;
    for row in matrix.iter_mut() {
        (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
    }
    for rows in [matrix, vectors] {
        let (low, high) = rows.split_at_mut(q);
        for (x, y) in low[p].iter_mut().zip(&mut high[0]) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn eigenvectors_are_orthonormal_and_only_scaled_by_the_matrix(
            numbers in prop::collection::vec(-10.0..10.0_f64, 1..300),
        ) {
            let n = numbers.len().isqrt();
            let matrix: Vec<Vec<f64>> = (0..n)
                .map(|i| (0..n).map(|j| numbers[i.min(j) * n + i.max(j)]).collect())
                .collect();
            let (values, vectors) = eigenvectors(matrix.clone());
            prop_assert!(values.is_sorted_by(|a, b| a >= b));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            for (k, (value, vector)) in values.iter().zip(&vectors).enumerate() {
                for (row, x) in matrix.iter().zip(vector) {
                    prop_assert!((dot(row, vector) - value * x).abs() < 1e-9);
                }
                for (other, other_vector) in vectors.iter().enumerate() {
                    let expected = f64::from(u8::from(k == other));
                    prop_assert!((dot(vector, other_vector) - expected).abs() < 1e-10);
                }
            }
        }
    }
}
