import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Delayed messages of RocketMQ, for bench.rocketmq.
 *
 * <p>`send NAMESERVER TOPIC COUNT FIRST_MS WINDOW_MS BYTES` sends messages whose delivery times (Unix ms) are spread evenly, and prints "seconds S" when
 * the last one was stored. Logback writes to the standard output too. `receive NAMESERVER TOPIC COUNT SECONDS` prints lines "late MS", one for each message. The first eight bytes of
 * a message are its delivery time.
 */
public final class RocketDelays {
    private static final int IN_FLIGHT = 256;
    /** A broker that is busy rejects messages (flow control). They are sent again. */
    private static final int ATTEMPTS_MAX = 100;

    private static final ScheduledExecutorService again = Executors.newSingleThreadScheduledExecutor();

    public static void main(String[] arguments) throws Exception {
        System.exit(arguments[0].equals("send") ? send(arguments) : receive(arguments));
    }

    private static int send(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]), size = Integer.parseInt(arguments[6]);
        long first = Long.parseLong(arguments[4]), window = Long.parseLong(arguments[5]);
        var producer = new DefaultMQProducer("delays");
        producer.setNamesrvAddr(arguments[1]);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        var room = new Semaphore(IN_FLIGHT);
        var failed = new AtomicInteger();
        var rest = new byte[Math.max(0, size - 8)];
        new Random(1).nextBytes(rest);
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long at = first + window * i / count;
            var message = new Message(arguments[2], ByteBuffer.allocate(8 + rest.length).putLong(at).put(rest).array());
            message.setDeliverTimeMs(at);
            room.acquire();
            attempt(producer, message, room, failed, 1);
        }
        room.acquire(IN_FLIGHT);
        System.out.printf("seconds %.3f%n", (System.nanoTime() - begun) / 1e9);
        producer.shutdown();
        if (failed.get() > 0) System.err.println(failed.get() + " messages were not stored");
        return failed.get() > 0 ? 1 : 0;
    }

    private static void attempt(
        DefaultMQProducer producer, Message message, Semaphore room, AtomicInteger failed, int number) {
        var callback =
            new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    room.release();
                }

                @Override
                public void onException(Throwable e) {
                    if (number < ATTEMPTS_MAX) {
                        again.schedule(() -> attempt(producer, message, room, failed, number + 1), 10, TimeUnit.MILLISECONDS);
                        return;
                    }
                    if (failed.getAndIncrement() == 0) System.err.println(e);
                    room.release();
                }
            };
        try {
            producer.send(message, callback);
        } catch (Exception e) {
            callback.onException(e);
        }
    }

    private static int receive(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        var late = new AtomicLongArray(count);
        var number = new AtomicInteger();
        var all = new CountDownLatch(count);
        var consumer = new DefaultMQPushConsumer("lateness-" + arguments[2]);
        consumer.setNamesrvAddr(arguments[1]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[2], "*");
        consumer.registerMessageListener(
            (MessageListenerConcurrently)
                (messages, context) -> {
                    long now = System.currentTimeMillis();
                    for (var message : messages) {
                        int i = number.getAndIncrement();
                        if (i < count) late.set(i, now - ByteBuffer.wrap(message.getBody()).getLong());
                        all.countDown();
                    }
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
        consumer.start();
        System.err.println("started");
        boolean complete = all.await(Long.parseLong(arguments[4]), TimeUnit.SECONDS);
        consumer.shutdown();
        var found = new long[Math.min(count, number.get())];
        for (int i = 0; i < found.length; i++) found[i] = late.get(i);
        Arrays.sort(found);
        var text = new StringBuilder();
        for (long ms : found) text.append("late ").append(ms).append('\n');
        System.out.print(text);
        return complete ? 0 : 1;
    }
}
