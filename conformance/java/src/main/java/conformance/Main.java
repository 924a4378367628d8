package conformance;

/** `talk` or `consume`, then flags. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Flags flags = new Flags(arguments, 1);
        if (arguments[0].equals("consume")) {
            Consume.run(flags);
        } else {
            Talk.run(flags);
        }
    }
}
