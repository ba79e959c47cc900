#pragma once
// Vocabulary parallelism: takes the head off the last device of a 1F1B pipeline and spreads its product with the vocabulary over all
// devices by rows of the vocabulary. Each device then does ⌈V/p⌉ rows' work of every micro-batch, and the head is no longer the
// slowest stage. The algebra of the passes is in model/vocabulary_passes.h.
//
// p devices, h the unit of the head. In the new Program unit h is the head's norm alone, on the last device, and unit h + 1 + d is part d of
// the product, on device d (Program::head_parts = p). For each micro-batch:
//   FORWARD(h)                last device: output(h), the normed rows, which a SEND brings to every other device
//   FORWARD(h + 1 + d)        pass S: logits of the part, local softmax. Leaves output(h + 1 + d), which a SEND brings to the last
//                             device: both summands of the input's gradient and three numbers a row; keeps saved(h + 1 + d)
//   BACKWARD_INPUT(h + p)     last device, the only barrier: joins all S. Makes gradient(h), the gradient of the normed rows,
//                             and gradient(h + 1 + d), a factor for each row, which a SEND brings back to device d
//   BACKWARD_WEIGHT(h + 1 + d)  pass T: adds the weight gradient of the part, from output(h), saved and the factors
//   BACKWARD_INPUT(h), BACKWARD_WEIGHT(h)  last device: back through the norm, as ever
//
// Order  Device d works in rounds. Round r: FORWARD of its layers on micro-batch r, S of r - a, backward of its layers of r - (p - d),
//        T of r - a - 1. Plain 1F1B has the backward of r - (p - d - 1): a device holds one micro-batch more, the first p + 1.
//        a = ⌈(forwards of the devices behind d) / R⌉, R the longest round of a device; work is measured in FLOPs of micro-batch 0.
// No deadlock  Let device d begin round r at time t_d + r·R, t_d = the forwards of the devices before d, and run its four passes one
//        after the other. Then all that a pass waits for has ended when it begins: a·R lies between the forwards behind d and these
//        plus R, so an S begins when the last device's forward of its micro-batch has ended or later, and ends before
//        that device's backward of it, one round later, begins. So no circle can be in what waits for what. Messages of one device to one
//        other leave in the order in which the compute makes them.

#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The Program of all devices (lower) with its head spread. Only tests call spread_head so far; the executor refuses the Program.
/// Costs   FLOPs, bytes moved, temporaries, resident bytes, UPDATE and NORM of the head's product are shared out by rows of the
///         vocabulary: ⌈V/p⌉ to each part, the rest to the last. So the sums are those of the plain Program; the
///         joining of parts moves bytes besides. Of the FORWARD's work S has two thirds and T one, as two of its three products are S's.
/// Bytes   of a micro-batch of T rows of D numbers of s bytes: output(h) T·D·s; output of a part 2·T·D·s + 24·T; gradient of a part 8·T;
///         saved of a part T·V_d·s + T·(4; f64: 8).
/// Errors  usage, naming the reason: a tied or frozen head, another schedule than 1F1B, one device, replicas, groups or ZeRO,
///         activations off the device, sums over groups of micro-batches.
/// Source  Yeung et al. 2024, arXiv:2411.05288, Algorithm 2 (one barrier; p + 1 by figure 10); the lists' closed form is ours. The paper's
///         devices sum the input's gradient in two exchanges behind each other (recalled); here each sends both of its summands at once,
///         twice as many bytes in one exchange. The paper spreads the embedding too; here it stays on the first device.
Program spread_head(const ModelSpec&, const Placement&);

}  // namespace tern
