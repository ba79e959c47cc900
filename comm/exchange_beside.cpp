#include "comm/exchange_beside.h"

#include <exception>
#include <utility>

#include "base/error.h"

namespace tern {

void ExchangeBeside::post(std::function<void()> exchange) {
  TERN_CHECK(!posted_, "ExchangeBeside: nobody has waited for the last exchange");
  thread_.post(std::move(exchange));
  posted_ = true, ++count_;
}

void ExchangeBeside::wait() {
  thread_.wait(count_);
  posted_ = false;
  if (const std::exception_ptr failure = thread_.take_failure()) std::rethrow_exception(failure);
}

void ExchangeBeside::drop() noexcept {
  thread_.wait(count_);
  posted_ = false;
  thread_.take_failure();
}

}  // namespace tern
