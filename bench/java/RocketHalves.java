import java.nio.ByteBuffer;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.topic.TopicValidator;

/**
 * Half messages of RocketMQ (transactional messages), each committed at once, for bench.rocketmq_halves.
 *
 * <p>Arguments: name server, topic, number of messages, threads that send, messages per second (0: no limit), bytes, longest time in seconds. Waits until a
 * line arrives on the standard input, then sends. Prints "ready" before it waits, "seconds S" when all messages have arrived at a consumer, and lines
 * "late MS": the time from the call that sends a message to its arrival. A number that is negative is that of a warm-up.
 */
public final class RocketHalves {
    private static final int QUEUES = 4;
    private static final int WARM_UP = 200;

    public static void main(String[] arguments) throws Exception {
        System.exit(run(arguments));
    }

    private static int run(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]), threads = Integer.parseInt(arguments[3]);
        long rate = Long.parseLong(arguments[4]), longest = Long.parseLong(arguments[6]);
        var rest = new byte[Math.max(0, Integer.parseInt(arguments[5]) - 12)];
        new Random(1).nextBytes(rest);
        var producer = new TransactionMQProducer("halves");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(30_000);
        producer.setTransactionListener(
            new TransactionListener() {
                @Override
                public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }

                @Override
                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
            });
        producer.start();
        producer.createTopic(TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC, topic, QUEUES, java.util.Map.of());
        var late = new AtomicLongArray(count);
        var all = new CountDownLatch(count);
        var warm = new CountDownLatch(WARM_UP);
        var consumer = new DefaultMQPushConsumer("halves-" + topic);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently)
                (messages, context) -> {
                    long now = System.nanoTime();
                    for (var message : messages) {
                        var body = ByteBuffer.wrap(message.getBody());
                        long sent = body.getLong();
                        int number = body.getInt();
                        if (number < 0) warm.countDown();
                        else if (late.compareAndSet(number, 0, Math.max(1, now - sent))) all.countDown();
                    }
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
        consumer.start();
        var failed = new AtomicInteger();
        for (int i = 0; i < WARM_UP; i++) send(producer, topic, -1, rest, failed);
        if (!warm.await(120, TimeUnit.SECONDS)) return 1;
        System.out.println("ready");
        System.out.flush();
        System.in.read();
        var next = new AtomicInteger();
        var pool = Executors.newFixedThreadPool(threads);
        long begun = System.nanoTime();
        for (int t = 0; t < threads; t++) {
            pool.execute(
                () -> {
                    for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
                        long wait = rate > 0 ? begun + i * 1_000_000_000L / rate - System.nanoTime() : 0;
                        if (wait > 0) java.util.concurrent.locks.LockSupport.parkNanos(wait);
                        send(producer, topic, i, rest, failed);
                    }
                });
        }
        boolean complete = all.await(longest, TimeUnit.SECONDS);
        System.out.printf("seconds %.3f%n", (System.nanoTime() - begun) / 1e9);
        pool.shutdownNow();
        consumer.shutdown();
        producer.shutdown();
        var text = new StringBuilder();
        for (int i = 0; i < count; i++) if (late.get(i) > 0) text.append("late ").append(late.get(i) / 1e6).append('\n');
        System.out.print(text);
        if (failed.get() > 0) System.err.println(failed.get() + " messages were rejected at least once");
        return complete ? 0 : 1;
    }

    /** A broker that is busy rejects messages (flow control). They are sent again. */
    private static void send(TransactionMQProducer producer, String topic, int number, byte[] rest, AtomicInteger failed) {
        long now = System.nanoTime();
        var body = ByteBuffer.allocate(12 + rest.length).putLong(now).putInt(number).put(rest).array();
        for (int attempt = 0; attempt < 100; attempt++) {
            try {
                if (producer.sendMessageInTransaction(new Message(topic, body), null).getSendStatus() == SendStatus.SEND_OK) return;
            } catch (Exception e) {
                if (failed.getAndIncrement() == 0) System.err.println(e);
            }
        }
    }
}
