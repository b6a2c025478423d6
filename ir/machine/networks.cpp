// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of hosts and of networks.
//
// Ranks of a host: the vendors' servers (HGX H100, H200, H20, B200, A100; MI250X with eight dies;
// MI300X and MI355X platforms); of cards on PCIe as many as its common servers hold. Latency inside
// of a host (Timing::peerLatency): half of a notify and its answer on H200s (notifyLatency) less
// the fence, and 936 ns of ASTRA-sim's input for HGX H100; PCIe is taken as 1500 ns.
//
// Rates of networks are those of the ports: ConnectX-7 with NDR InfiniBand (400 Gbit/s), ConnectX-6
// with HDR (200 Gbit/s), ConnectX-8 with XDR (800 Gbit/s), 400 Gbit/s Ethernet with RoCE v2,
// 400 Gbit/s of EFA for each GPU of an AWS p5en. Latencies and messages are not measured here:
// about 1 us from a GPU to its NIC and out, as much into the peer's memory, and 0.2 to 1 us of
// switches; proxies of a CPU (EFA, TCP) add theirs.
#include "ir/machine/networks.h"

#include "llvm/ADT/STLExtras.h"

namespace dtile {
namespace {

constexpr HostFacts kHosts[] = {
    {.machine = "h200", .ranks = 8},   {.machine = "h20", .ranks = 8},
    {.machine = "b200", .ranks = 8},   {.machine = "a100", .ranks = 8},
    {.machine = "a10", .ranks = 8},    {.machine = "l40s", .ranks = 8},
    {.machine = "mi250x", .ranks = 8}, {.machine = "mi300x", .ranks = 8},
    {.machine = "mi355x", .ranks = 8},
};

constexpr NetworkFacts kNetworks[] = {
    {.name = "ib",
     .description = "NDR InfiniBand, 400 Gbit/s a GPU",
     .rate = 50,
     .latency = 3000,
     .message = 100},
    {.name = "ib-hdr",
     .description = "HDR InfiniBand, 200 Gbit/s a GPU",
     .rate = 25,
     .latency = 3000,
     .message = 100},
    {.name = "ib-xdr",
     .description = "XDR InfiniBand, 800 Gbit/s a GPU",
     .rate = 100,
     .latency = 3000,
     .message = 100},
    {.name = "roce",
     .description = "RoCE v2 on Ethernet, 400 Gbit/s a GPU",
     .rate = 50,
     .latency = 4000,
     .message = 100},
    {.name = "efa",
     .description = "AWS EFA, 400 Gbit/s a GPU, through a proxy",
     .rate = 50,
     .latency = 12000,
     .message = 700},
    {.name = "tcp",
     .description = "TCP on Ethernet, 25 Gbit/s a GPU, through a proxy",
     .rate = 3.125,
     .latency = 30000,
     .message = 5000},
};

} // namespace

const HostFacts *findHost(llvm::StringRef machine) {
  const auto *it = llvm::find_if(kHosts, [&](const HostFacts &x) { return x.machine == machine; });
  return it == std::end(kHosts) ? nullptr : it;
}

llvm::ArrayRef<NetworkFacts> allNetworks() { return kNetworks; }

const NetworkFacts *findNetwork(llvm::StringRef name) {
  const auto *it = llvm::find_if(kNetworks, [&](const NetworkFacts &x) { return x.name == name; });
  return it == std::end(kNetworks) ? nullptr : it;
}

} // namespace dtile
