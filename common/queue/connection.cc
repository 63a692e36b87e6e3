// rabbitmq-c behind events and deadlines.
//
// Why no call blocks for long. Opening: the socket, the login and every reply share one deadline.
// Sending: rabbitmq-c 0.11 waits without limit in two cases, both kept away. (1) The socket's
// buffer is full: can_send() says no while less than a third of it is free, and a message takes a
// few hundred bytes. (2) Nothing was heard for two heartbeats: then amqp_basic_publish reads with
// no limit at all (README.md, "Read before publishing"); read(), which goes before every publish,
// gives the connection up after one and a half.
#include "common/queue/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/queue/rabbitmq_c.h"

namespace audiogen::queue {
namespace {

constexpr amqp_channel_t kChannel = 1;
constexpr int kChannelMax = 4;
constexpr int kFrameMax = 131'072;
constexpr std::int64_t kQuorumSize = 3;  // Fewer nodes: as many as there are.
constexpr std::int64_t kDeliveryLimit = 20;
constexpr std::int64_t kDeadLengthMax = 100'000;
constexpr std::int64_t kDeadKeptMs = 14LL * 24 * 3600 * 1000;
constexpr std::chrono::milliseconds kConnectLimit{3'000};
constexpr const char* kJobKey = "job";
constexpr const char* kExpressKey = "express";
constexpr const char* kDeadKey = "dead";
constexpr const char* kConsumerTag = "worker";
constexpr const char* kExpressConsumerTag = "worker-express";

// The bytes stay `text`'s.
amqp_bytes_t bytes(std::string_view text) {
  // The library's type is not const-correct; nothing is written through it.
  return {text.size(), const_cast<char*>(text.data())};
}

std::string text(amqp_bytes_t from) {
  return {static_cast<const char*>(from.bytes), from.len};
}

timeval to_timeval(std::chrono::milliseconds span) {
  return {span.count() / 1000, span.count() % 1000 * 1000};
}

// A table of arguments, at most eight. It must outlive the call it is passed to.
class Table {
 public:
  Table& add(const char* key, std::string_view value) {
    entry(key, AMQP_FIELD_KIND_UTF8).bytes = bytes(value);
    return *this;
  }
  Table& add(const char* key, std::int64_t value) {
    entry(key, AMQP_FIELD_KIND_I64).i64 = value;
    return *this;
  }
  Table& add_true(const char* key) {
    entry(key, AMQP_FIELD_KIND_BOOLEAN).boolean = 1;
    return *this;
  }
  Table& add(const char* key, Table& value) {
    entry(key, AMQP_FIELD_KIND_TABLE).table = value.get();
    return *this;
  }
  amqp_table_t get() { return {count_, entries_.data()}; }

 private:
  decltype(amqp_field_value_t::value)& entry(const char* key, int kind) {
    AG_CHECK(static_cast<std::size_t>(count_) < entries_.size());
    amqp_table_entry_t& added = entries_[static_cast<std::size_t>(count_++)];
    added.key = amqp_cstring_bytes(key);
    added.value.kind = static_cast<std::uint8_t>(kind);
    return added.value.value;
  }

  std::array<amqp_table_entry_t, 8> entries_{};
  int count_ = 0;
};

// A socket that speaks TLS to a broker whose certificate is verified: chain, dates and host. Null
// when `files` cannot be used.
amqp_socket_t* new_tls_socket(amqp_connection_state_t state, const TlsFiles& files) {
  amqp_socket_t* const socket = amqp_ssl_socket_new(state);
  AG_CHECK(socket != nullptr);
  amqp_ssl_socket_set_verify_peer(socket, 1);
  amqp_ssl_socket_set_verify_hostname(socket, 1);
  amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
  // Without a file the library knows no authority at all.
  const bool trusts = files.ca.empty()
                          ? SSL_CTX_set_default_verify_paths(
                                static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket))) == 1
                          : amqp_ssl_socket_set_cacert(socket, files.ca.c_str()) == AMQP_STATUS_OK;
  const bool shows =
      files.cert.empty() ||
      amqp_ssl_socket_set_key(socket, files.cert.c_str(), files.key.c_str()) == AMQP_STATUS_OK;
  return trusts && shows ? socket : nullptr;
}

OpenError connect_error(int status) {
  switch (status) {
    case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED:
      return {.configuration = true,
              .reason = "connect: the broker's certificate is not for the host of AMQP_URL"};
    case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
      return {.configuration = true,
              .reason =
                  "connect: the broker's certificate has expired, or nobody signed it whom "
                  "we trust"};
    case AMQP_STATUS_SSL_CONNECTION_FAILED:
      return {.reason =
                  "connect: the TLS handshake failed; does the broker speak TLS at this "
                  "port?"};
    default:
      return {.reason = std::string("connect: ") + amqp_error_string2(status)};
  }
}

constexpr std::size_t kHeadersMax = 200;

void add_field(Headers& out, const std::string& path, const amqp_field_value_t& field, int depth);

void add_table(Headers& out, const std::string& path, const amqp_table_t& table, int depth) {
  for (int i = 0; i < table.num_entries; ++i) {
    const amqp_table_entry_t& entry = table.entries[i];
    add_field(out, (path.empty() ? "" : path + ".") + text(entry.key), entry.value, depth);
  }
}

// No more than kHeadersMax of them, and nothing nested deeper than anybody reads: they may be an
// enemy's.
void add_field(Headers& out, const std::string& path, const amqp_field_value_t& field, int depth) {
  constexpr int kDepthMax = 8;
  if (out.size() >= kHeadersMax) {
    return;
  }
  const auto add = [&](std::string value) { out.emplace_back(path, std::move(value)); };
  switch (field.kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
      return add(field.value.boolean != 0 ? "true" : "false");
    case AMQP_FIELD_KIND_I8:
      return add(std::to_string(field.value.i8));
    case AMQP_FIELD_KIND_U8:
      return add(std::to_string(field.value.u8));
    case AMQP_FIELD_KIND_I16:
      return add(std::to_string(field.value.i16));
    case AMQP_FIELD_KIND_U16:
      return add(std::to_string(field.value.u16));
    case AMQP_FIELD_KIND_I32:
      return add(std::to_string(field.value.i32));
    case AMQP_FIELD_KIND_U32:
      return add(std::to_string(field.value.u32));
    case AMQP_FIELD_KIND_I64:
      return add(std::to_string(field.value.i64));
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
      return add(std::to_string(field.value.u64));
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
      return add(text(field.value.bytes));
    case AMQP_FIELD_KIND_TABLE:
      return depth < kDepthMax ? add_table(out, path, field.value.table, depth + 1) : add("{...}");
    case AMQP_FIELD_KIND_ARRAY:
      if (depth >= kDepthMax) {
        return add("[...]");
      }
      for (int i = 0; i < field.value.array.num_entries; ++i) {
        add_field(out, path + "." + std::to_string(i), field.value.array.entries[i], depth + 1);
      }
      return;
    default:
      return add(std::string("(") + static_cast<char>(field.kind) + ")");
  }
}

Headers read_headers(const amqp_basic_properties_t& from) {
  Headers out;
  const auto add = [&](amqp_flags_t flag, const char* name, const amqp_bytes_t& value) {
    if ((from._flags & flag) != 0) {
      out.emplace_back(name, text(value));
    }
  };
  add(AMQP_BASIC_CONTENT_TYPE_FLAG, "content_type", from.content_type);
  add(AMQP_BASIC_CONTENT_ENCODING_FLAG, "content_encoding", from.content_encoding);
  add(AMQP_BASIC_CORRELATION_ID_FLAG, "correlation_id", from.correlation_id);
  add(AMQP_BASIC_REPLY_TO_FLAG, "reply_to", from.reply_to);
  add(AMQP_BASIC_EXPIRATION_FLAG, "expiration", from.expiration);
  add(AMQP_BASIC_MESSAGE_ID_FLAG, "message_id", from.message_id);
  add(AMQP_BASIC_TYPE_FLAG, "type", from.type);
  add(AMQP_BASIC_USER_ID_FLAG, "user_id", from.user_id);
  add(AMQP_BASIC_APP_ID_FLAG, "app_id", from.app_id);
  if ((from._flags & AMQP_BASIC_TIMESTAMP_FLAG) != 0) {
    out.emplace_back("timestamp", std::to_string(from.timestamp));
  }
  if ((from._flags & AMQP_BASIC_HEADERS_FLAG) != 0) {
    add_table(out, "", from.headers, 0);
  }
  return out;
}

std::string closed_text(std::uint16_t code, amqp_bytes_t reason) {
  return "closed by the broker: " + std::to_string(code) + " " + text(reason);
}

}  // namespace

Connection::Connection(const Topology& topology, const Options& options)
    : topology_(topology),
      options_(options),
      heartbeat_(options.heartbeat),
      state_(amqp_new_connection()) {
  AG_CHECK(state_ != nullptr);
}

Connection::~Connection() {
  amqp_destroy_connection(state_);  // Closes the socket.
}

Result<std::unique_ptr<Connection>, OpenError> Connection::open(const AmqpUrl& url,
                                                                const Topology& topology,
                                                                const Options& options) {
  std::unique_ptr<Connection> out(new Connection(topology, options));
  if (auto error = out->connect(url)) {
    return *std::move(error);
  }
  if (auto error = out->login(url)) {
    return *std::move(error);
  }
  if (options.declare) {
    if (auto error = out->declare_topology()) {
      return *std::move(error);
    }
  }
  if (options.confirm) {
    if (!out->set_reply_limit()) {
      return OpenError{.reason = "no time left"};
    }
    amqp_confirm_select(out->state_, kChannel);
    if (auto error = out->last_reply("confirm.select")) {
      return *std::move(error);
    }
  }
  return out;
}

std::optional<OpenError> Connection::connect(const AmqpUrl& url) {
  amqp_socket_t* const socket =
      url.tls ? new_tls_socket(state_, *url.tls) : amqp_tcp_socket_new(state_);
  if (socket == nullptr) {
    AG_CHECK(url.tls.has_value());
    return OpenError{.configuration = true,
                     .reason = "connect: the files of AMQP_URL hold no usable certificate or key"};
  }
  timeval limit = to_timeval(std::min(kConnectLimit, options_.limit));
  const int status = amqp_socket_open_noblock(socket, url.host.c_str(), url.port, &limit);
  if (status != AMQP_STATUS_OK) {
    return connect_error(status);
  }
  return std::nullopt;
}

std::optional<OpenError> Connection::login(const AmqpUrl& url) {
  if (!set_reply_limit()) {
    return OpenError{.reason = "no time left"};
  }
  // Without these the broker tells nothing about deleted queues and memory alarms.
  Table capabilities;
  capabilities.add_true("publisher_confirms")
      .add_true("basic.nack")
      .add_true("consumer_cancel_notify")
      .add_true("connection.blocked")
      .add_true("authentication_failure_close");
  Table properties;
  properties.add("capabilities", capabilities);
  const amqp_table_t table = properties.get();
  const amqp_rpc_reply_t reply =
      amqp_login_with_properties(state_,
                                 url.vhost.c_str(),
                                 kChannelMax,
                                 kFrameMax,
                                 static_cast<int>(options_.heartbeat.count()),
                                 &table,
                                 AMQP_SASL_METHOD_PLAIN,
                                 url.user.c_str(),
                                 url.password.c_str());
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
    return OpenError{.reason = std::string("login: ") + amqp_error_string2(reply.library_error)};
  }
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
    // The broker's own words name the user: ours do not.
    int code = 0;
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
      code = static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_code;
    }
    const char* meaning = code == AMQP_ACCESS_REFUSED ? " (credentials refused)"
                          : code == AMQP_NOT_ALLOWED  ? " (virtual host missing or not permitted)"
                                                      : "";
    return OpenError{.configuration = *meaning != '\0',
                     .reason = "login: " + std::to_string(code) + meaning};
  }
  if (!set_reply_limit()) {
    return OpenError{.reason = "no time left"};
  }
  amqp_channel_open(state_, kChannel);
  return last_reply("channel.open");
}

std::optional<OpenError> Connection::declare_topology() {
  const std::string exchange = topology_.exchange();
  const std::string dead_exchange = topology_.dead_exchange();
  const std::string jobs = topology_.jobs();
  const std::string express = topology_.express();
  const std::string dead = topology_.dead();

  Table job_arguments;
  job_arguments.add("x-queue-type", "quorum")
      .add("x-quorum-initial-group-size", kQuorumSize)
      .add("x-delivery-limit", kDeliveryLimit)
      .add("x-dead-letter-exchange", dead_exchange)
      .add("x-dead-letter-routing-key", kDeadKey)
      .add("x-overflow", "reject-publish")
      .add("x-max-length", topology_.max_length)
      .add("x-queue-leader-locator", "balanced");
  Table dead_arguments;
  dead_arguments.add("x-queue-type", "quorum")
      .add("x-quorum-initial-group-size", kQuorumSize)
      .add("x-max-length", kDeadLengthMax)
      .add("x-message-ttl", kDeadKeptMs);

  const auto declare_exchange = [&](const std::string& name) {
    amqp_exchange_declare(state_,
                          kChannel,
                          bytes(name),
                          bytes("direct"),
                          /*passive=*/0,
                          /*durable=*/1,
                          /*auto_delete=*/0,
                          /*internal=*/0,
                          amqp_empty_table);
  };
  const auto declare_queue = [&](const std::string& name, Table& arguments) {
    amqp_queue_declare(state_,
                       kChannel,
                       bytes(name),
                       /*passive=*/0,
                       /*durable=*/1,
                       /*exclusive=*/0,
                       /*auto_delete=*/0,
                       arguments.get());
  };
  const auto bind = [&](const std::string& queue, const std::string& to, const char* key) {
    amqp_queue_bind(state_, kChannel, bytes(queue), bytes(to), bytes(key), amqp_empty_table);
  };
  const auto step = [&](const char* name, const auto& call) -> std::optional<OpenError> {
    if (!set_reply_limit()) {
      return OpenError{.reason = std::string(name) + ": no time left"};
    }
    call();
    return last_reply(name);
  };

  // Where dead letters go exists before anything can die.
  auto error = step("declare dead exchange", [&] { declare_exchange(dead_exchange); });
  if (!error) {
    error = step("declare dead queue", [&] { declare_queue(dead, dead_arguments); });
  }
  if (!error) {
    error = step("bind dead queue", [&] { bind(dead, dead_exchange, kDeadKey); });
  }
  if (!error) {
    error = step("declare exchange", [&] { declare_exchange(exchange); });
  }
  if (!error) {
    error = step("declare queue", [&] { declare_queue(jobs, job_arguments); });
  }
  if (!error) {
    error = step("bind queue", [&] { bind(jobs, exchange, kJobKey); });
  }
  if (!error) {
    error = step("declare express queue", [&] { declare_queue(express, job_arguments); });
  }
  if (!error) {
    error = step("bind express queue", [&] { bind(express, exchange, kExpressKey); });
  }
  return error;
}

bool Connection::set_reply_limit() {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  if (left.count() <= 0) {
    return false;
  }
  const timeval limit = to_timeval(left);
  return amqp_set_rpc_timeout(state_, &limit) == AMQP_STATUS_OK &&
         amqp_set_handshake_timeout(state_, &limit) == AMQP_STATUS_OK;
}

std::optional<OpenError> Connection::last_reply(const char* step) {
  const amqp_rpc_reply_t reply = amqp_get_rpc_reply(state_);
  amqp_maybe_release_buffers(state_);
  const std::string prefix = std::string(step) + ": ";
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
    return std::nullopt;
  }
  if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
      const auto* close = static_cast<amqp_channel_close_t*>(reply.reply.decoded);
      return OpenError{.configuration = close->reply_code == AMQP_PRECONDITION_FAILED ||
                                        close->reply_code == AMQP_ACCESS_REFUSED,
                       .reason = prefix + closed_text(close->reply_code, close->reply_text)};
    }
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
      const auto* close = static_cast<amqp_connection_close_t*>(reply.reply.decoded);
      return OpenError{.reason = prefix + closed_text(close->reply_code, close->reply_text)};
    }
  }
  return OpenError{.reason = prefix + amqp_error_string2(reply.library_error)};
}

int Connection::fd() const {
  return amqp_get_sockfd(state_);
}

Incoming Connection::lose(std::string reason) {
  if (lost_.empty()) {
    lost_ = std::move(reason);
  }
  return {.event = Event::kLost};
}

bool Connection::sent(int status) {
  if (status != AMQP_STATUS_OK) {
    lose(std::string("send: ") + amqp_error_string2(status));
  }
  return status == AMQP_STATUS_OK;
}

bool Connection::silent() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
         std::chrono::milliseconds(info.tcpi_last_data_recv) > heartbeat_ * 3 / 2;
}

Incoming Connection::read() {
  for (;;) {
    if (!lost_.empty()) {
      return {.event = Event::kLost};
    }
    amqp_maybe_release_buffers(state_);
    amqp_frame_t frame;
    const timeval now{};
    const int status = amqp_simple_wait_frame_noblock(state_, &frame, &now);
    if (status == AMQP_STATUS_TIMEOUT) {
      return silent() ? lose("nothing heard from the broker") : Incoming{};
    }
    if (status != AMQP_STATUS_OK) {
      return lose(std::string("receive: ") + amqp_error_string2(status));
    }
    if (frame.frame_type == AMQP_FRAME_METHOD) {
      if (partial_) {
        return lose("a message was cut short");
      }
      if (auto event = take_method(frame.payload.method.id, frame.payload.method.decoded)) {
        return *std::move(event);
      }
      continue;
    }
    if (frame.frame_type == AMQP_FRAME_HEADER && partial_ && !header_seen_) {
      header_seen_ = true;
      body_left_ = frame.payload.properties.body_size;
      partial_->bytes = body_left_;
      if (partial_->event == Event::kGot && frame.payload.properties.class_id == AMQP_BASIC_CLASS) {
        partial_->headers = read_headers(
            *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded));
      }
    } else if (frame.frame_type == AMQP_FRAME_BODY && partial_ && header_seen_ &&
               frame.payload.body_fragment.len <= body_left_) {
      const amqp_bytes_t& part = frame.payload.body_fragment;
      body_left_ -= part.len;
      const std::size_t most =
          partial_->event == Event::kGot ? kShownBytesMax : kMessageBytesMax + 1;
      const std::size_t room = most - partial_->body.size();
      partial_->body.append(static_cast<const char*>(part.bytes), std::min(part.len, room));
    } else {
      return lose("unexpected frame");
    }
    if (body_left_ == 0) {
      header_seen_ = false;
      return *std::exchange(partial_, std::nullopt);
    }
  }
}

std::optional<Incoming> Connection::take_method(std::uint32_t id, void* decoded) {
  switch (id) {
    case AMQP_BASIC_ACK_METHOD: {
      const auto* ack = static_cast<amqp_basic_ack_t*>(decoded);
      return Incoming{
          .event = Event::kAck, .tag = ack->delivery_tag, .multiple = ack->multiple != 0};
    }
    case AMQP_BASIC_NACK_METHOD: {
      const auto* nack = static_cast<amqp_basic_nack_t*>(decoded);
      return Incoming{
          .event = Event::kNack, .tag = nack->delivery_tag, .multiple = nack->multiple != 0};
    }
    case AMQP_BASIC_RETURN_METHOD:
      partial_ = Incoming{.event = Event::kReturn};
      return std::nullopt;
    case AMQP_BASIC_DELIVER_METHOD: {
      const auto* deliver = static_cast<amqp_basic_deliver_t*>(decoded);
      const bool express = text(deliver->consumer_tag) == kExpressConsumerTag;
      partial_ = Incoming{.event = Event::kDeliver,
                          .tag = deliver->delivery_tag,
                          .redelivered = deliver->redelivered != 0,
                          .lane = express ? Lane::kExpress : Lane::kBulk};
      return std::nullopt;
    }
    case AMQP_BASIC_GET_OK_METHOD: {
      const auto* got = static_cast<amqp_basic_get_ok_t*>(decoded);
      partial_ = Incoming{
          .event = Event::kGot, .tag = got->delivery_tag, .redelivered = got->redelivered != 0};
      return std::nullopt;
    }
    case AMQP_BASIC_GET_EMPTY_METHOD:
      return Incoming{.event = Event::kNothing};
    case AMQP_BASIC_CANCEL_METHOD:
      return Incoming{.event = Event::kCanceled};
    case AMQP_QUEUE_DECLARE_OK_METHOD:
      return Incoming{.event = Event::kQueue,
                      .consumers = static_cast<amqp_queue_declare_ok_t*>(decoded)->consumer_count};
    case AMQP_CONNECTION_BLOCKED_METHOD:
      return Incoming{.event = Event::kBlocked};
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
      return Incoming{.event = Event::kUnblocked};
    case AMQP_CONNECTION_CLOSE_OK_METHOD:
      return Incoming{.event = Event::kClosed};
    case AMQP_BASIC_QOS_OK_METHOD:
    case AMQP_BASIC_CONSUME_OK_METHOD:
      return std::nullopt;  // As asked; nobody waits for it.
    case AMQP_CHANNEL_CLOSE_METHOD: {
      const auto* close = static_cast<amqp_channel_close_t*>(decoded);
      return lose("channel " + closed_text(close->reply_code, close->reply_text));
    }
    case AMQP_CONNECTION_CLOSE_METHOD: {
      const auto* close = static_cast<amqp_connection_close_t*>(decoded);
      return lose(closed_text(close->reply_code, close->reply_text));
    }
    default: {
      const char* name = amqp_method_name(id);
      return lose(std::string("unexpected method ") + (name == nullptr ? "?" : name));
    }
  }
}

bool Connection::can_send() const {
  // POLLOUT means that at least a third of the send buffer is free.
  pollfd socket{.fd = fd(), .events = POLLOUT, .revents = 0};
  return poll(&socket, 1, 0) == 1 && (socket.revents & POLLOUT) != 0;
}

bool Connection::publish(std::span<const Hint> hints, Lane lane) {
  const std::string exchange = topology_.exchange();
  const std::string body = encode_hints(hints);
  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
  properties.content_type = bytes("application/json");
  properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
  return sent(amqp_basic_publish(state_,
                                 kChannel,
                                 bytes(exchange),
                                 bytes(lane == Lane::kExpress ? kExpressKey : kJobKey),
                                 /*mandatory=*/1,
                                 /*immediate=*/0,
                                 &properties,
                                 bytes(body)));
}

bool Connection::consume(std::uint16_t prefetch) {
  amqp_basic_qos_t qos{.prefetch_size = 0, .prefetch_count = prefetch, .global = 0};
  const auto begin = [&](const std::string& queue, const char* tag) {
    amqp_basic_consume_t consume{};
    consume.queue = bytes(queue);
    consume.consumer_tag = bytes(tag);
    return sent(amqp_send_method(state_, kChannel, AMQP_BASIC_CONSUME_METHOD, &consume));
  };
  return sent(amqp_send_method(state_, kChannel, AMQP_BASIC_QOS_METHOD, &qos)) &&
         begin(topology_.express(), kExpressConsumerTag) && begin(topology_.jobs(), kConsumerTag);
}

bool Connection::check_queues() {
  const auto check = [&](const std::string& queue) {
    amqp_queue_declare_t declare{};
    declare.queue = bytes(queue);
    declare.passive = 1;
    return sent(amqp_send_method(state_, kChannel, AMQP_QUEUE_DECLARE_METHOD, &declare));
  };
  return check(topology_.jobs()) && check(topology_.express());
}

bool Connection::ack(std::uint64_t tag, bool multiple) {
  return sent(amqp_basic_ack(state_, kChannel, tag, multiple ? 1 : 0));
}

bool Connection::reject(std::uint64_t tag) {
  return sent(amqp_basic_reject(state_, kChannel, tag, /*requeue=*/0));
}

bool Connection::get(const std::string& queue) {
  amqp_basic_get_t get{};
  get.queue = bytes(queue);
  return sent(amqp_send_method(state_, kChannel, AMQP_BASIC_GET_METHOD, &get));
}

bool Connection::put_back_all() {
  // Not one by one by basic.reject: RabbitMQ 4.3 counts that as a failure of the message.
  return sent(amqp_basic_nack(state_, kChannel, 0, /*multiple=*/1, /*requeue=*/1));
}

bool Connection::send_close() {
  amqp_connection_close_t close{};
  close.reply_code = AMQP_REPLY_SUCCESS;
  return sent(amqp_send_method(state_, 0, AMQP_CONNECTION_CLOSE_METHOD, &close));
}

bool Connection::redeclare() {
  deadline_ = Clock::now() + options_.limit;
  if (const auto error = declare_topology()) {
    lose(error->reason);
    return false;
  }
  return true;
}

std::optional<std::uint64_t> Connection::message_count(const std::string& queue) {
  if (!set_reply_limit()) {
    return std::nullopt;
  }
  const amqp_queue_declare_ok_t* reply = amqp_queue_declare(state_,
                                                            kChannel,
                                                            bytes(queue),
                                                            /*passive=*/1,
                                                            /*durable=*/0,
                                                            /*exclusive=*/0,
                                                            /*auto_delete=*/0,
                                                            amqp_empty_table);
  return reply == nullptr ? std::nullopt : std::optional<std::uint64_t>(reply->message_count);
}

}  // namespace audiogen::queue
